"""Other ways to write a pattern, all lowered onto the matcher: chains, rules in text, tuples, functions."""
