"""Chooses the values to feed, sizes of dynamic dimensions, and the runs that a budget allows."""
