"""Evaluation of constants: by numpy, or in onnxruntime."""
