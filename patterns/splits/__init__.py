"""Tensors that are taken apart and joined: Split and Concat."""
