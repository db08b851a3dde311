"""Resolving: what a leader does when a commit was refused or its outcome is unknown.

It finds out which groups were committed, and writes back what somebody else changed in the store.
"""
