"""The built-in catalogue: one pattern a file, named after its operators in dataflow order."""
