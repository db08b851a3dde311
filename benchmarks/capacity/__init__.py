"""What the work of Spark's jobs costs the leader: a batch, a checkpoint file, and each request of one."""
