"""The leader's work on trees beside requests: manifests come into memory, records are folded, dead ones are dropped."""
