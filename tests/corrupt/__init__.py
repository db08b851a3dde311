"""Damage in each kind of stored thing, with a leader and without: nothing of it may pass in silence.

`shape` says what a store offers: its kinds of things, each of which can be read and overwritten behind the service's
back. `embedded`, `zookeeper`, `kubernetes` and `blobs` offer theirs. `cases` makes the cases, `history` writes what is
acknowledged before the damage, `trial` damages one thing and holds the service to what it had acknowledged.
``python -m tests.corrupt`` runs as many as it is asked for and prints the table; `test_corrupt` runs a cut.
"""
