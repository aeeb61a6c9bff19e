"""Lookups by index: Gather, GatherElements and GatherND."""
