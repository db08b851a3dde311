"""A seeded simulator: the real service over simulated backends, in virtual time.

An episode is a small world that is drawn from one seed: replicas, a coordination store, an election, a blob store,
clients, and faults. Everything that happens in it follows from the seed, so an episode that breaks an invariant breaks
it again each time it is run. `python -m tests.simulation --help` runs many of them.

What is real: everything in ``service`` above the backends and below HTTP. What is simulated: time, backends, network,
processes that pause, die and start again, and clients, which judge answers as the SDK does; beside them Spark's drivers
and executors, which write the tree of a job and ask again as Hadoop's client does.

A world of two cells (`cells_episode`) has the real application and the real SDK as well: the network carries whole
requests of HTTP. Drivers find their jobs, lead and write, movers move them, and people keep savepoints. The journals of
both cells are read for what must hold of a job that moves (`checks.cell_chronicle`, decision 124).
"""
