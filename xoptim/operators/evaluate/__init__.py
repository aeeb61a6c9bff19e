"""Evaluation of constants: shared parts of numpy kernels, and regions in onnxruntime."""
