"""Changes of a model other than optimizations: dimensions, inputs, outputs, subgraphs, texts."""
