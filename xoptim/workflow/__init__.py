"""The steps from a model to its verified result, in one place: the command, the API, `tune` and
batches run a `Job`.
"""
