"""What the pointers and the election in Kubernetes have in common: an address, a client, and translated errors."""
