"""Scalers, linear models and ensembles of trees of ai.onnx.ml, as converters of scikit-learn write
them.
"""
