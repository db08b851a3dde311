"""The role of a replica: it takes part in the election, leads while it has won, and does a leader's background work."""
