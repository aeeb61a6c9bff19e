"""Passes and hooks of other tools: onnx_ir, Olive, torch."""
