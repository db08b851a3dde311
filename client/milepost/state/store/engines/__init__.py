"""What holds one version of a store while it is open."""
