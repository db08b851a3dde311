"""How the service performs an act on a job that takes several requests: as a client of itself."""
