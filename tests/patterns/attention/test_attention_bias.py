"""The bias of the keys, which Softmax ignores."""

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, numpy_helper

from tests.support import types
from xoptim import optimize
from xoptim.patterns.attention.attention_bias import AddMatMulSoftmaxPattern
from xoptim.testing import parse

MASKED, PLAIN = (example.before for example in AddMatMulSoftmaxPattern.examples)


def in_float16(text: str) -> ModelProto:
    """A model in 16-bit floats."""
    model = parse(text, 18, ())
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return model


@pytest.mark.parametrize(
    ("text", "adds"), [(MASKED, 2), (PLAIN, 0)], ids=["with a mask", "without"]
)
def test_it_stays_next_to_a_mask_of_16_bits(text: str, adds: int) -> None:
    """The sum of a score and the lowest number of 16 bits may be infinite without the bias."""
    after = optimize(in_float16(text), patterns=AddMatMulSoftmaxPattern)
    assert types(after).count("Add") == adds
    assert types(optimize(parse(text, 18, ()), patterns=AddMatMulSoftmaxPattern)).count("Add") == (
        1 if adds else 0
    )
