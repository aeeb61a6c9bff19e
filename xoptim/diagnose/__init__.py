"""Seventh floor: why a pattern does not apply, which rewrite changes a result, and the small models that show it."""
