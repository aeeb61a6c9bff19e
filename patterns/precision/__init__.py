"""Quantization of operands to integers, which changes results; only where it is asked for."""
