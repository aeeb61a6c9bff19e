"""Ground floor: facts about ONNX itself, for all models."""
