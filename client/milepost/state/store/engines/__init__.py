"""Engines, each of which holds one version of a store while it is open."""
