"""Ground floor: what is true of ONNX itself, whatever the model."""
