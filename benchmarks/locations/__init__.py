"""What a micro-batch takes, with Spark's checkpoint in one place or another; see `benchmarks.locations.__main__`."""
