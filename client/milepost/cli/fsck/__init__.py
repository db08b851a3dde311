"""Look through all that a service holds for damage, through the service, and repair what may be repaired safely."""
