"""The parts that several state APIs of `milepost.state.dialects` and `milepost.state.processors` share: a value, a list
and a map of a key as rows of a state store, and the time to live of values.

- `milepost.state.cells.lifetime`: the time that is stored before each value that expires, and the index of keys by
  expiry.
- `milepost.state.cells.families`: a column family of values or of lists, from which expired values are removed.
- `milepost.state.cells.states`: the current key, and its values, lists and maps with their coders.

Each API adds its own names and rules. It also defines what has rows of another form: timers, Beam's cells, whose rows
begin with a key and a namespace instead of a key group, and the lists of Flink's operators, which are divided by
position when the number of tasks changes.
"""
