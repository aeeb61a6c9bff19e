"""Raise or lower a model to another operator set."""
