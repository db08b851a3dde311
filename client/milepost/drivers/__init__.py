"""What carries out the effects of the core over real connections: one driver per flavour, both on httpx."""
