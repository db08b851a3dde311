"""The files of a store: their names, their content, and its verification."""
