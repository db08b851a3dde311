"""The format of a state store's files: their names, their content, and how a reader verifies them."""
