"""Normalizations by the root mean square, below the operator set with RMSNormalization."""

import pathlib

import onnx
import onnxruntime
import pytest

from tests.support import parse, types
from xoptim import optimize, verify

SQUARES = ("p = Mul(x, x)", "p = Pow(x, two)")


def normalization(
    square: str = SQUARES[0], opset: int = 20, scale: str = "float[3]", axis: int = -1
) -> onnx.ModelProto:
    return parse(
        "agraph (float[a,b,3] x) => (float[a,b,3] y) <float two = {2}, float e = {0.001}, "
        f"{scale} w = {{1, -2, 0.5}}, int64[1] i = {{{axis}}}> {{ {square} "
        "m = ReduceMean <keepdims = 1> (p, i) v = Add(m, e) r = Sqrt(v) n = Reciprocal(r) "
        "z = Mul(x, n) y = Mul(w, z) }",
        opset,
    )


@pytest.mark.parametrize("square", SQUARES)
def test_onnxruntime_fuses_the_result(square: str, tmp_path: pathlib.Path) -> None:
    model = normalization(square)
    result = optimize(model)
    assert types(result) == ["Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul"]
    assert verify(model, result).status == "equal"
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(
        result.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    fused = onnx.load(tmp_path / "fused.onnx")
    assert types(fused) == ["SimplifiedLayerNormalization"]


def test_newer_operator_sets_have_an_operator() -> None:
    assert types(optimize(normalization(opset=23))) == ["RMSNormalization"]
    newest = optimize(normalization(), patterns="default+onnxruntime")
    assert types(newest) == ["SimplifiedLayerNormalization"]


@pytest.mark.parametrize(
    "model",
    [
        normalization(axis=1),
        normalization(scale="float[3,1]"),
        normalization(opset=12),
        normalization("q = Neg(x) p = Mul(x, q)"),
    ],
    ids=["axis", "scale", "operator set", "square"],
)
def test_other_formulas_stay(model: onnx.ModelProto) -> None:
    assert "Reciprocal" in types(optimize(model, patterns="RootMeanSquare"))
