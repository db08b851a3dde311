"""Makes the site of the documentation, and its pictures."""
