"""What a job publishes: files that a manifest names, whose output a directory is, and how others read it."""
