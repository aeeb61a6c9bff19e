"""Operators written with simpler ones, for runtimes that lack them."""
