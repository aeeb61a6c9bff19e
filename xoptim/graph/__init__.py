"""The model in memory, its nodes, names and tensors, and the methods that change it."""
