"""Errors of the validate room."""

from __future__ import annotations

from xoptim.facts.errors import XoptimError


class ProviderUnavailable(XoptimError):  # noqa: N818 - reads as what it says
    """The installed onnxruntime cannot run models on the execution provider that was asked for."""


class LoadError(XoptimError):
    """onnxruntime refuses to make a session of a model."""


class RunError(XoptimError):
    """onnxruntime fails while it runs a model, or its results cannot be read."""


class FeedError(XoptimError):
    """No value can be made for an input of the model."""
