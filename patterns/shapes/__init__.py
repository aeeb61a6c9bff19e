"""Sizes that a model computes, and tensors that are expanded to them: Shape, Expand and their
neighbours.
"""
