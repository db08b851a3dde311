"""Managed state for PySpark: versioned state stores of keys and values, and coders that turn values into bytes.

`milepost.state.store` has the state stores, `milepost.state.coders` the coders, `milepost.state.dialects` the state
APIs of Flink and Beam, and `milepost.state.errors` the errors. ``pip install "milepost[state]"`` installs the packages
that they need.
"""
