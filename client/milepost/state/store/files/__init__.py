"""Storage for the files of state stores: its contract, local directories, memory, and the tree of a job."""
