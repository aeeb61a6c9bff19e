"""Fewer bits: operands rounded to integers, which changes results; only where it is asked for."""
