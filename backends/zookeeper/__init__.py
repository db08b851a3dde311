"""What the pointers and the election in ZooKeeper have in common: an address, a connection, and translated errors."""
