"""Patterns of Acme. Every module of the package is searched."""
