"""The model: the stored data, as immutable records, and the operations that change it, as requests.

This package has only data: it makes no decisions, and its objects never change.
"""
