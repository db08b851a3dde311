---- MODULE MCTrees ----
EXTENDS Trees
T(op, p, q, e, o, a) == [op |-> op, p |-> p, q |-> q, e |-> e, over |-> o, after |-> a]
\* Two that rename to one name, of one epoch; and of two.
Race   == << T("put","t1","t1",1,TRUE,0), T("put","t2","t2",1,FALSE,0), T("ren","t1","c",1,FALSE,1), T("ren","t2","c",1,FALSE,2) >>
Fences == << T("put","t1","t1",1,TRUE,0), T("ren","t1","c",1,FALSE,1), T("put","t2","t2",2,FALSE,0), T("ren","t2","c",2,FALSE,3) >>
\* A file that a commit shows, and that is written again, or deleted.
Again  == << T("put","f","f",1,TRUE,0), T("put","c","c",1,FALSE,1), T("put","f","f",1,TRUE,2), T("del","f","f",1,FALSE,3) >>
\* A file that comes and goes while it is folded.
ComeGo == << T("put","f","f",1,FALSE,0), T("del","f","f",1,FALSE,1), T("put","f","f",1,FALSE,2), T("del","f","f",1,FALSE,3) >>
Moved  == << T("put","f","f",1,FALSE,0), T("ren","f","c",1,FALSE,1), T("del","c","c",1,FALSE,2) >>
====
