"""The records in memory, with their indexes: the committed state, and a view that adds the changes of the groups in
flight.
"""
