"""The files of a store: what they are called, what stands in them, and how that is proved."""
