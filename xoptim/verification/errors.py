"""Errors of the verification package."""

import re
from typing import Final

from xoptim.facts.errors import XoptimError

_WHERE_IT_FAILED: Final = re.compile(
    r"^(?:\w+ : )?Non-zero status code returned while running (\S+) node\. "
    r"Name:('[^']*') Status Message: "
)
"""The beginning of onnxruntime's message about a node that fails."""
_PLACE_IN_SOURCE: Final = re.compile(r"/onnxruntime_src/\S+ .*? was false\. ")


class ProviderUnavailable(XoptimError):  # noqa: N818 - the name is a sentence
    """The installed onnxruntime cannot run models on the requested execution provider."""


class LoadError(XoptimError):
    """ONNX Runtime cannot create a session for a model."""


class RunError(XoptimError):
    """ONNX Runtime fails while it runs a model, or its results cannot be read."""


class RunStoppedError(RunError):
    """A run took longer than it may."""


class FeedError(XoptimError):
    """No value can be made for an input of the model."""


class ChoiceError(FeedError):
    """Values or sizes that the caller chose do not fit the model, or cannot be read."""


class NothingToQuantizeError(ChoiceError):
    """A model has nothing that can be quantized; it stays in float32."""


class ToleranceError(XoptimError):
    """The error of a quantized model exceeds its tolerance, or its integer operators compute
    other results.
    """


def shortened(error: str) -> str:
    """A message of onnxruntime that begins with the node that failed, where it names one."""
    return _PLACE_IN_SOURCE.sub("", _WHERE_IT_FAILED.sub(r"\1 \2: ", error))
