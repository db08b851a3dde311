"""A logical backup: what a service holds, read through the service while it runs, in one file that proves itself."""
