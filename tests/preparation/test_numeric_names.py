"""Dimensions whose names are numbers have these sizes, as exporters write them."""

import onnx
import pytest

import xoptim
from tests.support import parse
from xoptim.facts.errors import ModelError
from xoptim.preparation.preparation import fix_sizes

MODEL = (
    "agraph (float[n,2,m] x) => (float[n,2,m] y) <int64[4] k = {-1, 2, 1, 4}, "
    "int64[3] l = {-1, 2, 4}> { r = Reshape(x, k) a = Relu(r) y = Reshape(a, l) }"
)


def model() -> onnx.ModelProto:
    """The dimension of 2 heads is named "2", and the one of four features "4"."""
    made = parse(MODEL)
    for value in (*made.graph.input, *made.graph.output):
        dims = value.type.tensor_type.shape.dim
        dims[1].dim_param, dims[2].dim_param = "2", "4"
    return made


def test_the_sizes_are_known() -> None:
    result = xoptim.optimize(model())
    assert [node.op_type for node in result.graph.node] == ["Relu"]
    names = [dim.dim_param for dim in result.graph.input[0].type.tensor_type.shape.dim]
    assert names == ["n", "2", "4"]


def test_they_are_fed_with_these_sizes() -> None:
    report = xoptim.verify(model(), model())
    assert report.ok
    assert all(run.dims.keys() == {"n"} for run in report.runs)


def test_they_cannot_be_fixed() -> None:
    with pytest.raises(ModelError, match="input '2'"):
        fix_sizes(model(), {"2": 3})
