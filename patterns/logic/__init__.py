"""Booleans and selection: Not, comparisons, Where."""
