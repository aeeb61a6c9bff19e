"""Positions that are looked up: Gather, GatherElements and GatherND."""
