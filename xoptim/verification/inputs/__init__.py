"""Chooses what is fed: values, sizes of dynamic dimensions, and the runs that a budget allows."""
