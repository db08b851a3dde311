"""The format of a store's files: their names, their content, and how a reader verifies it."""
