-------------------------------- MODULE Trees --------------------------------
(* The files of one job, over a journal whose commits are atomic and fenced (Milepost.tla shows that).  A file is put in three
   steps: redirect to a door, bytes, publication.  Paths have entries, in records of their own and in rows of manifests.
   Requests are a static table Reqs; each may be asked again when its answer is lost, or its leader dies.               *)
EXTENDS Naturals, Sequences, FiniteSets
CONSTANTS Path, Tmp, Commit, Reqs, MaxEp, MaxAtt, MaxCrash, MaxFold, Off
VARIABLES db,     \* what is committed: revision, epoch, fence, records of paths, manifests, mark of folding, cuts
          blobs,  \* blob store: keys present
          rq,     \* where each request is;   fd: the leader's folding;   trash: blobs that the leader is about to discard
          fd, trash, gh, crashes, folds
vars == <<db, blobs, rq, fd, trash, gh, crashes, folds>>
On(g) == g \notin Off
K == 1..Len(Reqs)
None == [h |-> FALSE, s |-> {}, k |-> {}]               \* h: there is a record;  s: its entries;  k: puts whose answer it keeps
Idle == [st |-> "idle", rows |-> [p \in Path |-> None]]
Init == /\ db = [r |-> 0, ep |-> 1, fence |-> 1, granted |-> 0, own |-> [p \in Path |-> None], man |-> <<>>,
                 folding |-> FALSE, cuts |-> {}]
        /\ blobs = {} /\ fd = Idle /\ trash = {} /\ crashes = 0 /\ folds = 0
        /\ rq = [k \in K |-> [st |-> "new", att |-> 1]]
        /\ gh = [files |-> [p \in Path |-> 0], shown |-> <<>>, appl |-> [k \in K |-> 0], bad |-> {}]
Flag(c, w) == IF c THEN {w} ELSE {}
-----------------------------------------------------------------------------  \* what is seen
Row(d, p)  == LET has == {i \in 1..Len(d.man) : d.man[i][p].h} IN
              IF has = {} THEN None ELSE d.man[CHOOSE i \in has : \A j \in has : j <= i][p]
Rec(d, p)  == IF d.own[p].h THEN d.own[p] ELSE Row(d, p)
Lives(d, p, x) == x.d = 0 /\ ~(p \in Tmp /\ x.b <= d.granted)    \* a draft dies with the grant of the next epoch
Alive(d, p) == {x \in Rec(d, p).s : Lives(d, p, x)}
Blob(xs)   == IF xs = {} THEN 0 ELSE (CHOOSE x \in xs : TRUE).x
InCut(p, x, c) == p \notin Tmp /\ x.b <= c /\ (x.d = 0 \/ x.d > c)
Shown(d, p, c) == Blob({x \in Rec(d, p).s : InCut(p, x, c)})
Seen(d)    == {x.x : x \in UNION {Rec(d, p).s : p \in Path}}
Pending    == {10 * k + rq[k].att : k \in {j \in K : rq[j].st = "bytes"}}
-----------------------------------------------------------------------------  \* how records change
Stays(d, p) == (On("folding") /\ d.folding) \/ (On("tomb") /\ Row(d, p).h)
Put(d, p, s, k) == [d EXCEPT !.own[p] = IF s = {} /\ ~Stays(d, p) THEN None ELSE [h |-> TRUE, s |-> s, k |-> k]]
Ended(d, p) == LET dies(x) == [x EXCEPT !.d = d.r + 1]                        \* what is left of a path once its file ends
  IN {dies(x) : x \in {y \in Rec(d, p).s : y.d = 0 /\ \E c \in d.cuts : InCut(p, y, c)}} \cup {x \in Rec(d, p).s : x.d # 0}
Begin(d, p, x, k) == Put(d, p, Ended(d, p) \cup {x}, Rec(d, p).k \cup k)
End(d, p)  == Put(d, p, Ended(d, p), Rec(d, p).k)
Cutting(d, p) == IF p \in Commit THEN [d EXCEPT !.cuts = {d.r + 1}] ELSE d      \* one cut is kept
Step(d)    == [d EXCEPT !.r = @ + 1]
Discards(d, e) == (Seen(d) \ Seen(e))                     \* Off cutblob: the blob goes although a cut shows it
                  \cup (IF On("cutblob") THEN {} ELSE {x.x : x \in {y \in UNION {e.own[p].s : p \in Path} : y.d # 0}})
File(d, x, from, e) == [b |-> d.r + 1, d |-> 0, x |-> x, f |-> from, e |-> e]
-----------------------------------------------------------------------------  \* what a request does: "no", "fenced", "same", or a db
Decide(d, k) == LET q == Reqs[k]  there == Alive(d, q.p)  over == Alive(d, q.q) IN
  IF q.op = "put" /\ On("idem") /\ k \in Rec(d, q.p).k THEN "same"
  ELSE IF d.fence # q.e /\ (On("publish") \/ q.op # "put") THEN "fenced"
  ELSE CASE q.op = "put" -> IF there # {} /\ ~q.over THEN "no" ELSE "do"
         [] q.op = "ren" -> IF there = {}
              THEN IF On("came") /\ \E x \in over : x.f = q.p /\ x.e = q.e THEN "same" ELSE "no"
              ELSE IF over # {} /\ On("none") THEN "no" ELSE "do"
         [] OTHER -> IF there = {} THEN "same" ELSE "do"
Eff(d, k) == LET q == Reqs[k]  x == Blob(Alive(d, q.p)) IN
  Step(CASE q.op = "put" -> Cutting(Begin(d, q.p, File(d, 10 * k + rq[k].att, "", q.e), {k}), q.p)
         [] q.op = "ren" -> Cutting(Begin(End(d, q.p), q.q, File(d, x, q.p, q.e), {}), q.q)
         [] OTHER -> End(d, q.p))
Plain(f, k) == LET q == Reqs[k] IN                        \* the same, of a dictionary of paths
  CASE q.op = "put" -> [f EXCEPT ![q.p] = 10 * k + rq[k].att]
    [] q.op = "ren" -> [f EXCEPT ![q.q] = f[q.p], ![q.p] = 0]
    [] OTHER -> [f EXCEPT ![q.p] = 0]
Cuts(sh, d, f) == [c \in d.cuts |-> IF c \in DOMAIN sh THEN sh[c] ELSE [p \in Path |-> IF p \in Tmp THEN 0 ELSE f[p]]]
-----------------------------------------------------------------------------  \* clients
Door(k) == LET q == Reqs[k] IN
  /\ rq[k].st = "new" /\ q.e <= db.ep /\ (q.after # 0 => rq[q.after].st \in {"ok", "no"})
  /\ rq' = [rq EXCEPT ![k].st = IF (q.op = "put" /\ db.fence # q.e)
                                   \/ (~On("none") /\ q.op = "ren" /\ Alive(db, q.q) # {}) THEN "no" ELSE "door"]
  /\ UNCHANGED <<db, blobs, fd, trash, gh, crashes, folds>>
Bytes(k) == /\ rq[k].st = "door" /\ Reqs[k].op = "put" /\ rq' = [rq EXCEPT ![k].st = "bytes"]
            /\ blobs' = blobs \cup {10 * k + rq[k].att} /\ UNCHANGED <<db, fd, trash, gh, crashes, folds>>
Land(k, heard) == LET q == Reqs[k]  what == Decide(db, k)  new == Eff(db, k)  x == 10 * k + rq[k].att
                      f == Plain(gh.files, k) IN
  /\ rq[k].st = IF q.op = "put" THEN "bytes" ELSE "door"
  /\ rq' = [rq EXCEPT ![k] =
       IF heard THEN [@ EXCEPT !.st = IF what \in {"same", "do"} THEN "ok"
                                      ELSE IF what = "fenced" /\ rq[k].att > 1 THEN "lost" ELSE "no"]
       ELSE IF rq[k].att < MaxAtt THEN [st |-> "door", att |-> rq[k].att + 1] ELSE [@ EXCEPT !.st = "lost"]]
  /\ IF what = "do"
     THEN /\ db' = new /\ trash' = trash \cup Discards(db, new)
          /\ gh' = [gh EXCEPT !.files = f, !.appl[k] = @ + 1, !.shown = Cuts(gh.shown, new, f),
               !.bad = @ \cup Flag(q.e # db.ep, "staleEpoch")
                         \cup Flag(q.op = "ren" /\ Alive(db, q.q) # {}, "replaced")]
     ELSE /\ UNCHANGED <<db, gh>> /\ trash' = IF q.op = "put" THEN trash \cup ({x} \ Seen(db)) ELSE trash
  /\ UNCHANGED <<blobs, fd, crashes, folds>>
Grant == /\ db.ep < MaxEp
         /\ db' = [db EXCEPT !.r = @ + 1, !.ep = @ + 1, !.granted = db.r + 1, !.fence = IF On("grant") THEN db.ep + 1 ELSE @]
         /\ gh' = [gh EXCEPT !.files = [p \in Path |-> IF p \in Tmp THEN 0 ELSE @[p]]]
         /\ UNCHANGED <<blobs, rq, fd, trash, crashes, folds>>
MoveFence == /\ db.fence < db.ep /\ db' = [db EXCEPT !.r = @ + 1, !.fence = db.ep]
             /\ UNCHANGED <<blobs, rq, fd, trash, gh, crashes, folds>>
-----------------------------------------------------------------------------  \* the leader's upkeep
Trim(p) == LET rec == db.own[p]
               left == {x \in rec.s : Lives(db, p, x) \/ (x.d # 0 /\ \E c \in db.cuts : InCut(p, x, c))}
               new == Step(Put(db, p, left, rec.k)) IN
  /\ rec.h /\ left # rec.s /\ db' = new /\ trash' = trash \cup Discards(db, new)
  /\ UNCHANGED <<blobs, rq, fd, gh, crashes, folds>>
BeginFold == /\ fd.st = "idle" /\ folds < MaxFold /\ folds' = folds + 1 /\ fd' = [fd EXCEPT !.st = "begun"]
             /\ db' = IF db.folding THEN db ELSE Step([db EXCEPT !.folding = TRUE])
             /\ UNCHANGED <<blobs, rq, trash, gh, crashes>>
Stripped(s) == {[x EXCEPT !.f = ""] : x \in s}
Foldable(p) == db.own[p].h /\ p \notin Tmp /\ \A x \in db.own[p].s : x.d = 0
               /\ \A k \in K : Reqs[k].p = p \/ Reqs[k].q = p => rq[k].st \in {"new", "ok", "no"}   \* nobody asks again
Make == /\ fd.st = "begun" /\ \E p \in Path : Foldable(p)
        /\ fd' = [st |-> "made", rows |-> [p \in Path |-> IF Foldable(p) THEN [h |-> TRUE, s |-> Stripped(db.own[p].s), k |-> {}]
                                                          ELSE None]]
        /\ UNCHANGED <<db, blobs, rq, trash, gh, crashes, folds>>
Fold == /\ fd.st = "made" /\ fd' = [fd EXCEPT !.st = "folded"]
        /\ db' = Step([db EXCEPT !.man = Append(@, fd.rows), !.folding = FALSE])
        /\ UNCHANGED <<blobs, rq, trash, gh, crashes, folds>>
Drop(p) == /\ fd.st = "folded" /\ fd.rows[p].h /\ db.own[p].h
           /\ On("same") => Stripped(db.own[p].s) = Row(db, p).s
           /\ db' = Step([db EXCEPT !.own[p] = None]) /\ UNCHANGED <<blobs, rq, fd, trash, gh, crashes, folds>>
EndFold == fd.st = "folded" /\ fd' = Idle /\ UNCHANGED <<db, blobs, rq, trash, gh, crashes, folds>>
Merge == LET rows == [p \in Path |-> IF Row(db, p).s = {} THEN None ELSE Row(db, p)]
             new == Step([db EXCEPT !.man = <<rows>>]) IN
  /\ fd.st = "idle" /\ Len(db.man) > 1 /\ db' = new /\ trash' = trash \cup Discards(db, new)
  /\ UNCHANGED <<blobs, rq, fd, gh, crashes, folds>>
Discard == \E x \in trash : /\ trash' = trash \ {x} /\ blobs' = blobs \ {x}
                            /\ UNCHANGED <<db, rq, fd, gh, crashes, folds>>
Crash == /\ crashes < MaxCrash /\ crashes' = crashes + 1 /\ fd' = Idle /\ trash' = {}   \* bytes of another leader are not published
         /\ rq' = [k \in K |-> IF rq[k].st # "bytes" THEN rq[k]
                               ELSE IF rq[k].att < MaxAtt THEN [st |-> "door", att |-> rq[k].att + 1]
                               ELSE [rq[k] EXCEPT !.st = "lost"]]
         /\ UNCHANGED <<db, blobs, gh, folds>>
Collect == /\ crashes > 0 /\ LET x == blobs \ (Seen(db) \cup Pending) IN x # {} /\ blobs' = blobs \ x
           /\ UNCHANGED <<db, rq, fd, trash, gh, crashes, folds>>
Next == \/ \E k \in K : Door(k) \/ Bytes(k) \/ Land(k, TRUE) \/ Land(k, FALSE)
        \/ \E p \in Path : Trim(p) \/ Drop(p)
        \/ Grant \/ MoveFence \/ BeginFold \/ Make \/ Fold \/ EndFold \/ Merge \/ Discard \/ Crash \/ Collect
Spec == Init /\ [][Next]_vars
-----------------------------------------------------------------------------  \* invariants
FileKept  == \A p \in Path : Blob(Alive(db, p)) = gh.files[p]          \* a path shows what was put there, until it is ended
BlobThere == \A p \in Path : Alive(db, p) # {} => Blob(Alive(db, p)) \in blobs
CutShows  == \A c \in db.cuts, p \in Path : Shown(db, p, c) = gh.shown[c][p]
CutWhole  == \A c \in db.cuts, p \in Path : Shown(db, p, c) # 0 => Shown(db, p, c) \in blobs
Once      == \A k \in K : gh.appl[k] <= 1
TruthfulNo  == \A k \in K : rq[k].st = "no" => gh.appl[k] = 0
TruthfulYes == \A k \in K : rq[k].st = "ok" /\ Reqs[k].op # "del" => gh.appl[k] > 0
Safe      == gh.bad = {}                                               \* staleEpoch, replaced
=============================================================================
