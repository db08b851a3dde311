"""The model: what is stored, as immutable records, and what can be asked for, as requests.

Nothing here decides anything, and nothing here can change.
"""
