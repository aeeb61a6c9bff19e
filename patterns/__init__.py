"""The built-in catalogue: one folder for each family, one file for each pattern or table of
patterns.
"""
