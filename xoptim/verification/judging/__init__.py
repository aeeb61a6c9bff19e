"""Judges results: comparison, the arbiter in float64, noise, and the report."""
