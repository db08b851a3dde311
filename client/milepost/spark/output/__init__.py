"""The output of a job: the files that a manifest names, the claim on an output directory, and the readers."""
