"""Logical backups: the content of a service, read through the service while it runs, and saved in one tar file that
contains its own digests.
"""
