"""Coordinators: one that asks the service, and one in this process for tests and local mode."""
