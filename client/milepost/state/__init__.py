"""Managed state for PySpark: versioned stores of keys and values, and coders that turn values into bytes.

`milepost.state.store` has the stores, `milepost.state.coders` the coders, `milepost.state.internals` state and timers
for each key and window on top of both, and `milepost.state.errors` what all of them raise.
Install them with ``pip install "milepost[state]"``.
"""
