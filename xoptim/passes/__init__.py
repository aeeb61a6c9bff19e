"""The passes that every optimization runs: cleaning, folding, merging."""
