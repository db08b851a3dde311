"""From nothing to the first handle, as docs/install.md says: the distributions, what they install, and the unit."""
