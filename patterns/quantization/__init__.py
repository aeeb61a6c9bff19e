"""Pairs of QuantizeLinear and DequantizeLinear."""
