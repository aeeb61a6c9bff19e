"""Newer operator sets: a model is raised to one of them, and computes the same afterwards."""
