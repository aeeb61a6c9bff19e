"""Operators with sliding windows: Conv, ConvTranspose and pooling, with adjacent operators."""
