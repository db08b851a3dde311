"""The role of a replica: it takes part in the election, leads if it wins, and does the background work of a leader."""
