"""The model: the stored data, as immutable records, and the operations that change it, as requests.

Nothing in this package decides anything or has state that changes.
"""
