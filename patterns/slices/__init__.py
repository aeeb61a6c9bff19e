"""Slice, and operators whose results are read only in part."""
