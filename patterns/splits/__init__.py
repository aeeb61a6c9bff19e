"""Tensors that are split and joined: Split and Concat."""
