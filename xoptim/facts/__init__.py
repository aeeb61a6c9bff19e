"""Facts about ONNX itself, for all models."""
