"""Relu, Clip, Gelu, HardSigmoid, Softmax and other activations."""
