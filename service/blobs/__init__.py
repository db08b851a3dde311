"""The way of the bytes: in (`intake`), out (`delivery`), and away (`deletion_queue`, `collector`)."""
