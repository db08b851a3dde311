"""A logical backup: the content of a service, read through the service while it runs, in one file that contains its own
digests.
"""
