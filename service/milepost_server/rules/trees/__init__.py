"""The rules of trees: the files that a job's driver and executors write, fenced by the driver's epoch."""
