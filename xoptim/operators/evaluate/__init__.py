"""Evaluation of constants: what numpy kernels share, and regions in onnxruntime."""
