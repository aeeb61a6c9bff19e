"""Passes and hooks for other tools: onnx_ir, Olive, torch."""
