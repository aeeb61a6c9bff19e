"""Convolutions and pooling in other forms: attributes that the forms do not have."""

import numpy as np
import pytest

from tests.support import parse, run, types
from xoptim import optimize


def test_the_size_of_a_row() -> None:
    """``output_shape`` of an image with one line would need two numbers."""
    model = parse(
        "agraph (float[1,2,5] x, float[2,3,4] w) => (float[1,3,11] y) { "
        "y = ConvTranspose <strides = [2], output_shape = [11]> (x, w) }"
    )
    after = optimize(model, patterns=["LowerRowConvTranspose"], strict=True)
    assert types(after) == ["ConvTranspose"]
