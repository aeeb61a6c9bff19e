"""The functions of the public door."""
