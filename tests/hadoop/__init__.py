"""Hadoop's contract suites on a job's files, beside the same suites on a real NameNode."""
