"""Start a pattern file."""
