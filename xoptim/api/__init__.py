"""The functions of the public API."""
