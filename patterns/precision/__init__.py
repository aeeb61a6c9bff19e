"""Quantization and float16 conversion, which change results; only on request (--precision)."""
