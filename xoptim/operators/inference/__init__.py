"""Inference of shapes, types and values: shared parts of the formulas of all families."""
