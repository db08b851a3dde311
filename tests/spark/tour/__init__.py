"""A week of the owner of three jobs, by the commands of docs/jobs.md."""
