"""Runs models: sessions of ONNX Runtime, sections, devices, and models as sessions read them."""
