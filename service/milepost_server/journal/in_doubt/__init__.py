"""Resolve in-doubt commits: what a leader does when a commit was refused or its outcome is unknown.

The leader finds out which groups were committed, and writes back records that another process changed in the pointer
store.
"""
