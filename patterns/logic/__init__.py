"""Truth values and selection: Not, comparisons, Where."""
