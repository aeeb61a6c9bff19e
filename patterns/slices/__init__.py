"""Spans of axes: Slice, and operators of which only a part is read."""
