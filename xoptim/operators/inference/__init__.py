"""Inference of shapes, types and values: what the formulas of all families share."""
