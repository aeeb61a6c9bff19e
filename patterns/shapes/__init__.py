"""Computed shapes, and operators that read them: Shape, Expand, Reshape, Resize."""
