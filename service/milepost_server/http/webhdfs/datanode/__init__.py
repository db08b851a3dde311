"""Data nodes: every replica takes and gives the bytes of files, and publishes what it took at whoever leads."""
