"""Scalers, linear models and tree ensembles of ai.onnx.ml, as skl2onnx writes them."""
