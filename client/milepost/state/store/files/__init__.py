"""Places that store the files of state."""
