"""The leader's work on trees beside requests: manifests come into memory, records are compacted, dead ones are
dropped.
"""
