"""What a replica knows of the other cells, and how it asks them."""
