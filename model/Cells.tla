------------------------------- MODULE Cells -------------------------------
(* One job among cells (docs/decisions/0124): how it is founded, and how it is moved.  A cell commits atomically and fenced
   (Milepost.tla shows that).  What a client or a mover has sent lands late, again, or never: so a mover that dies is one
   that does nothing any more, and one that wakes goes on where it was.  Nothing but lists joins two jobs.              *)
EXTENDS Naturals, FiniteSets
CONSTANTS Lists, MaxMove, MaxGrant, MaxWrite, Off
VARIABLES home,   \* the cell that the hash chooses, by list
          list,   \* list that each cell has committed; {}: none yet, the cell is silent
          rec,    \* record of the job at each cell
          none,   \* by list: the cells from which a client with this list has heard that they know no such job
          mv,     \* moves, by id
          gh      \* ghosts: how often the job was founded, greatest epoch, what was acknowledged, grants to drivers, flags
vars == <<home, list, rec, none, mv, gh>>
On(g) == g \notin Off
Cell == UNION Lists
Move == 1..MaxMove
Item == {1, 2}
Empty == [j \in Item |-> 0]
None == [st |-> "none", ep |-> 0, frz |-> FALSE, id |-> 0, data |-> Empty]   \* frz: frozen by the session that holds ep
New == [st |-> "new", from |-> "", to |-> "", e |-> 0, rd |-> [j \in Item |-> 99], was |-> Empty]  \* rd, was: read at from
Init == /\ (On("shared") => \A l, k \in Lists : l \cap k # {})       \* assumed: without a common cell, they are two worlds
        /\ home \in {f \in [Lists -> Cell] : \A l \in Lists : f[l] \in l}
        /\ list = [c \in Cell |-> {}] /\ rec = [c \in Cell |-> None] /\ none = [l \in Lists |-> {}]
        /\ mv = [i \in Move |-> New]
        /\ gh = [founded |-> 0, top |-> 0, data |-> Empty, grants |-> 0, writes |-> 0, bad |-> {}]
Flag(c, w) == IF c THEN {w} ELSE {}
-----------------------------------------------------------------------------  \* lists, and the first write of a job
Lead(c, l) == LET taken == IF On("grow") /\ ~(list[c] \subseteq l) THEN list[c] ELSE l IN   \* a leader with l in its settings
  /\ c \in l /\ taken # list[c] /\ list' = [list EXCEPT ![c] = taken] /\ UNCHANGED <<home, rec, none, mv, gh>>
Ask(l, c)  == /\ c \in l /\ rec[c].st = "none" /\ list[c] # {} /\ (On("same") => list[c] = l)
              /\ c \notin none[l] /\ none' = [none EXCEPT ![l] = @ \cup {c}] /\ UNCHANGED <<home, list, rec, mv, gh>>
Found(l) == LET c == home[l] IN
  /\ IF On("all") THEN none[l] = l ELSE c \in none[l]
  /\ rec[c].st = "none" /\ (On("digest") => list[c] = l)
  /\ rec' = [rec EXCEPT ![c].st = "here"] /\ gh' = [gh EXCEPT !.founded = @ + 1, !.data = Empty]
  /\ UNCHANGED <<home, list, none, mv>>
-----------------------------------------------------------------------------  \* drivers
Granted(c, m) == /\ rec' = [rec EXCEPT ![c].ep = @ + 1, ![c].frz = m]    \* m: to a mover
                 /\ gh' = [gh EXCEPT !.top = IF rec[c].ep + 1 > @ THEN rec[c].ep + 1 ELSE @,
                      !.grants = IF m THEN @ ELSE @ + 1, !.bad = @ \cup Flag(rec[c].ep + 1 <= gh.top, "epoch")]
Free(c)  == ~rec[c].frz /\ rec[c].st \in {"here"} \cup (IF On("barred") THEN {} ELSE {"arr"})
Grant(c) == Free(c) /\ gh.grants < MaxGrant /\ Granted(c, FALSE) /\ UNCHANGED <<home, list, none, mv>>
Write(c, j) == \* under the current epoch; or one that needs none, as a savepoint that a person asks for
  /\ rec[c].st \in {"here"} \cup (IF On("gone") THEN {} ELSE {"moved"})
  /\ (On("freeze") => ~rec[c].frz) /\ gh.writes < MaxWrite
  /\ rec' = [rec EXCEPT ![c].data[j] = gh.writes + 1]
  /\ gh' = [gh EXCEPT !.writes = @ + 1, !.data[j] = gh.writes + 1,
       !.bad = @ \cup Flag(rec[c].ep < gh.top, "stale") \cup Flag(rec[c].st = "moved", "late")]
  /\ UNCHANGED <<home, list, none, mv>>
-----------------------------------------------------------------------------  \* movers
Freeze(i, c, x) == \* also a second id under one epoch, which the leader refuses: it draws a seal for one, not modelled here
  /\ mv[i].st = "new" /\ (i > 1 => mv[i - 1].st # "new") /\ c # x
  /\ IF rec[c].frz THEN UNCHANGED <<rec, gh>> ELSE Free(c) /\ Granted(c, TRUE)
  /\ mv' = [mv EXCEPT ![i] = [@ EXCEPT !.st = "begin", !.from = c, !.to = x, !.e = rec'[c].ep]]
  /\ UNCHANGED <<home, list, none>>
SessionEnds(c) == rec[c].frz /\ rec' = [rec EXCEPT ![c].frz = FALSE] /\ UNCHANGED <<home, list, none, mv, gh>>
Begin(i) == LET m == mv[i]  r == rec[m.to] IN
  /\ m.st # "new" /\ r.st # "here"
  /\ IF r.st = "arr" /\ r.id = i THEN UNCHANGED rec         \* begun already
     ELSE /\ (On("order") => m.e > r.ep \/ (m.e = r.ep /\ ~On("above")))
          /\ rec' = [rec EXCEPT ![m.to] = [None EXCEPT !.st = "arr", !.id = i, !.ep = IF On("carry") THEN m.e ELSE r.ep]]
  /\ mv' = [mv EXCEPT ![i].st = IF @ = "begin" THEN "copy" ELSE @] /\ UNCHANGED <<home, list, none, gh>>
Read(i, j) == LET m == mv[i] IN
  /\ m.st = "copy" /\ rec[m.from].st = "here" /\ mv' = [mv EXCEPT ![i].rd[j] = rec[m.from].data[j]]
  /\ UNCHANGED <<home, list, rec, none, gh>>
Copy(i, j) == LET m == mv[i]  r == rec[m.to] IN
  /\ m.st # "new" /\ m.rd[j] # 99 /\ r.st = "arr" /\ (On("whose") => r.id = i)
  /\ rec' = [rec EXCEPT ![m.to].data[j] = m.rd[j]] /\ UNCHANGED <<home, list, none, mv, gh>>
Digest(i) == LET m == mv[i] IN                            \* of the old cell; then that of the new one is compared with it
  /\ m.st = "copy" /\ rec[m.from].st = "here" /\ mv' = [mv EXCEPT ![i].st = "digest", ![i].was = rec[m.from].data]
  /\ UNCHANGED <<home, list, rec, none, gh>>
Verify(i) == LET m == mv[i]  r == rec[m.to] IN
  /\ m.st = "digest" /\ r.st = "arr" /\ r.id = i /\ (On("verify") => r.data = m.was)
  /\ mv' = [mv EXCEPT ![i].st = "tomb"] /\ UNCHANGED <<home, list, rec, none, gh>>
Tomb(i) == LET m == mv[i]  r == rec[m.from] IN
  /\ m.st \in {"tomb", "done"} /\ r.st = "here" /\ (On("fence") => r.ep = m.e) /\ (On("held") => r.frz)
  /\ rec' = [rec EXCEPT ![m.from] = IF On("kept") THEN [None EXCEPT !.st = "moved", !.id = i, !.ep = r.ep] ELSE None]
  /\ mv' = [mv EXCEPT ![i].st = "done"] /\ UNCHANGED <<home, list, none, gh>>
Finish(i) == LET m == mv[i]  r == rec[m.to] IN            \* by anybody who has seen the tombstone, however long ago
  /\ m.st = "done" /\ r.st = "arr" /\ (On("id") => r.id = i)
  /\ rec' = [rec EXCEPT ![m.to] = [r EXCEPT !.st = "here", !.id = 0, !.ep = IF On("carry") THEN m.e ELSE @]]
  /\ UNCHANGED <<home, list, none, mv, gh>>
Drop(c) == /\ ~On("drop") /\ rec[c].st = "arr" /\ rec' = [rec EXCEPT ![c].id = 0, ![c].data = Empty]   \* by a person
           /\ UNCHANGED <<home, list, none, mv, gh>>
Next == \/ \E c \in Cell : (\E l \in Lists : Lead(c, l) \/ Ask(l, c)) \/ Grant(c) \/ SessionEnds(c) \/ Drop(c)
                           \/ (\E j \in Item : Write(c, j)) \/ (\E i \in Move, x \in Cell : Freeze(i, c, x))
        \/ \E l \in Lists : Found(l)
        \/ \E i \in Move : Begin(i) \/ Digest(i) \/ Verify(i) \/ Tomb(i) \/ Finish(i)
                           \/ (\E j \in Item : Read(i, j) \/ Copy(i, j))
Spec == Init /\ [][Next]_vars
-----------------------------------------------------------------------------  \* invariants
Here == {c \in Cell : rec[c].st = "here"}
OneHere  == Cardinality(Here) <= 1
Once     == gh.founded <= 1
Rising   == "epoch" \notin gh.bad                          \* no epoch is granted twice, and they rise over all cells
Accepted == gh.bad \cap {"stale", "late"} = {}             \* no write under an epoch that is over, or at the old place
Kept     == \A c \in Here : rec[c].data = gh.data
Movable(i) == LET m == mv[i]  r == rec[m.to] IN            \* anybody can finish it, and finds all that was acknowledged
  /\ m.st = "done" /\ rec[m.from].st = "moved" /\ rec[m.from].id = i /\ r.st = "arr" /\ r.id = i /\ r.data = gh.data
Whole    == gh.founded > 0 => Here # {} \/ \E i \in Move : Movable(i)
=============================================================================
