"""Managed state for PySpark: versioned stores of keys and values, and coders that turn values into bytes.

`milepost.state.store` has the stores, `milepost.state.coders` the coders, `milepost.state.dialects` the APIs of other
systems on top of both, and `milepost.state.errors` the errors of all of them. Install them with ``pip install
"milepost[state]"``.
"""
