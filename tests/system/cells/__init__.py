"""Kill cells, drivers and movers at random while jobs are moved: each job stays whole, and in one cell."""
