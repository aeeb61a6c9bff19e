"""Slice, and operators of which only a slice is read."""
