"""Examines the content of a service for damage, through the service, and makes the repairs that are safe."""
