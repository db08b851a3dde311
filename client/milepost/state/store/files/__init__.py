"""Where the files of state lie."""
