"""Contexts: which services a user works with, and how each is reached, kept in a file under names."""
