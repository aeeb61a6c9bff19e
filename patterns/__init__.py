"""The built-in catalogue: a folder a family, in it one pattern a file, named after its operators in dataflow order."""
