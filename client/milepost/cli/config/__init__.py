"""Contexts: the named services that a user works with, and how to reach each, kept in a file."""
