"""The core of the dialects: a value, a list and a map of a key as rows of a store, and the time to live of values.

- `milepost.state.cells.lifetime`: the stamp before a value that expires, and the index of keys by their expiry.
- `milepost.state.cells.families`: a column family of values or of lists, which hides and removes expired values.
- `milepost.state.cells.states`: the current key, and typed values, lists and maps on top of rows.

A dialect adds the names and rules of its API. What a dialect stores in its own way stays there: the timers of Spark and
of Beam, since their rows sort differently; Beam's cells, whose rows begin with a key and a namespace instead of a key
group, and whose reads can be announced; the lists of Flink's operators, which are split by position; and the snapshots
of `milepost.state.dialects.barriers`, which are files and not rows.
"""
