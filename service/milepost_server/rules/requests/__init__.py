"""What can be asked of the rules: one frozen class for each operation."""
