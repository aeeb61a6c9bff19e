"""Proofs: both sides of a rewrite compared for all sizes, as normal forms of their elements."""
