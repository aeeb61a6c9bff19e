"""Elementwise arithmetic and reductions: Add, Mul, Neg, Pow, Max, ..."""
