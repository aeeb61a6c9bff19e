"""The built-in catalogue: a folder a family, in it a file a pattern or a table of patterns that differ in an operator."""
