"""The core of the dialects: values, lists and maps of keys as rows of a store, and their time to live."""
