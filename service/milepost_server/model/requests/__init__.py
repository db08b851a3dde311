"""The requests: one frozen class for each operation that changes something."""
