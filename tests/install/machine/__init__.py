"""A machine of its own: a Debian with its own PID 1, in namespaces that share nothing with the machine below them."""
