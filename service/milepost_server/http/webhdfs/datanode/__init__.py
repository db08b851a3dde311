"""Data nodes: every replica takes and gives the bytes of files, and has the leader publish the files that it took."""
