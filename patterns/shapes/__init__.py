"""Shapes that a model computes, and operators that read them: Shape, Expand, Reshape, Resize."""
