"""The built-in patterns: a folder for each family, a file for each pattern or table of patterns."""
