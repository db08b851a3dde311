"""The core of the dialects: a value, a list and a map of a key as rows of a store, and the time to live of values.

- `milepost.state.cells.lifetime`: the time before a value that expires, and the index of keys by expiry.
- `milepost.state.cells.families`: a column family of values or of lists, from which expired values are removed.
- `milepost.state.cells.states`: the current key, and its values, lists and maps with their coders.

A dialect adds the names and rules of its API. Four things have rows of their own kind, and stay in their dialects. The
timers of Spark and of Beam sort differently. The rows of Beam's cells begin with a key and a namespace instead of a key
group, and reads of them can be announced. The lists of Flink's operators are split by position. The snapshots of
`milepost.state.dialects.barriers` are files.
"""
