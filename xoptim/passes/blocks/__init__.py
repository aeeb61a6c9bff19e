"""Blocks that repeat along a graph, such as the layers of a transformer, written once."""
