"""A query's checkpoint directory: what of it is stored, how it is packed, and how a later driver gets it back."""
