"""Diagnosis: why a pattern does not apply, which rewrite changes a result, and small models that
reproduce it.
"""
