"""The model in memory, its nodes, names and tensors, and the verbs that change it."""
