"""This package moves the bytes of states: in (`intake`), out (`delivery`), and away (`deletion_queue`, `collector`)."""
