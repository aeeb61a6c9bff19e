"""Changes of a model that are not optimizations: sizes, inputs and outputs, parts of it, texts that
it carries.
"""
