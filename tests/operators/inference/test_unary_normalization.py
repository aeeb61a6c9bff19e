"""Normalization."""

import pytest
from onnx import TensorProto

from tests.operators.inference.context import infer
from tests.operators.inference.oracle import Given, check, tensor
from xoptim.facts.dims import named
from xoptim.facts.shapes import UNKNOWN, Info

SIZES = ({"n": 2, "c": 3, "h": 4, "s": 5}, {"n": 1, "c": 1, "h": 2, "s": 1})
HALF, DOUBLE, FLOAT = TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.FLOAT


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
def test_batch_normalization(opset: int) -> None:
    c = tensor("c")
    for x in (tensor("n", "c", "h", 5), tensor("n", "c", "h"), tensor("n", "c")):
        assert check("BatchNormalization", [x, c, c, c, c], opset=opset, assignments=SIZES)[0] == x
        trained = {"training_mode": 1} if opset >= 14 else {}
        outputs = 3 if opset >= 14 else 5
        infos = check(
            "BatchNormalization",
            [x, c, c, c, c],
            trained,
            opset=opset,
            outputs=outputs,
            run=opset >= 14,
            assignments=SIZES,
        )
        assert infos == [x] + [c] * (outputs - 1)


def test_batch_normalization_statistics_may_have_another_type() -> None:
    x, c, wide = tensor("n", 3, "h", dtype=HALF), tensor(3, dtype=HALF), tensor(3)
    infos = check(
        "BatchNormalization",
        [x, c, c, wide, wide],
        {"training_mode": 1},
        opset=15,
        outputs=3,
        run=False,
    )
    assert infos == [x, wide, wide]


@pytest.mark.parametrize("opset", [1, 6])
def test_old_batch_normalization(opset: int) -> None:
    attributes = {"consumed_inputs": [0, 0, 0, 1, 1]} if opset == 1 else {}
    x, c = tensor("n", 3, "h"), tensor(3)
    infos = check(
        "BatchNormalization", [x, c, c, c, c], attributes, opset=opset, outputs=5, run=False
    )
    assert infos == [x, c, c, c, c]


@pytest.mark.parametrize("axis", [-1, 0, 1, 2, -2])
def test_layer_normalization(axis: int) -> None:
    x = tensor("n", "s", 6)
    shape = x.shape or ()
    scale = Info(FLOAT, shape[axis:])
    infos = check(
        "LayerNormalization",
        [x, scale, scale],
        {"axis": axis},
        opset=17,
        outputs=3,
        assignments=SIZES,
    )
    lead = shape[: axis % 3]
    assert infos == [x, *[Info(FLOAT, (*lead, *[1] * (3 - len(lead))))] * 2]
    assert check("LayerNormalization", [x, scale], {"axis": axis}, opset=17, assignments=SIZES) == [
        x
    ]


def test_layer_normalization_types() -> None:
    for dtype in (HALF, DOUBLE):
        x, scale = tensor("n", "s", 6, dtype=dtype), tensor(6, dtype=dtype)
        infos = check("LayerNormalization", [x, scale], opset=17, outputs=3, assignments=SIZES)
        assert [info.dtype for info in infos] == [dtype, FLOAT, FLOAT]
    x, scale = tensor("n", "s", 6, dtype=HALF), tensor(6, dtype=HALF)
    infos = check(
        "LayerNormalization",
        [x, scale],
        {"stash_type": HALF},
        opset=17,
        outputs=2,
        run=False,
        strict=False,
    )
    assert infos[1].dtype == HALF
    assert infer("LayerNormalization", [UNKNOWN, scale], num_outputs=3)[1] == Info(FLOAT)


def test_root_mean_square_normalization() -> None:
    x, scale = tensor("n", "s", 6), tensor(6)
    assert check("RMSNormalization", [x, scale], opset=23, assignments=SIZES) == [x]
    assert check("RMSNormalization", [x, UNKNOWN], opset=23, run=False) == [x]
    for dtype in (FLOAT, HALF):
        x, scale = tensor("n", "s", 6, dtype=dtype), tensor(6, dtype=dtype)
        infos = check(
            "SimplifiedLayerNormalization", [x, scale], outputs=2, strict=False, assignments=SIZES
        )
        assert infos == [x, Info(FLOAT, (named("n"), named("s"), 1))]
    wide = tensor("n", "s", 6)
    assert infer("SimplifiedLayerNormalization", [wide, scale])[0].dtype == HALF


@pytest.mark.parametrize(
    ("op_type", "opset", "attributes", "channels"),
    [
        ("InstanceNormalization", 6, {}, 4),
        ("InstanceNormalization", 22, {}, 4),
        ("GroupNormalization", 18, {"num_groups": 2}, 2),
        ("GroupNormalization", 21, {"num_groups": 2}, 4),
        ("LpNormalization", 1, {"axis": 1}, 0),
        ("LpNormalization", 22, {}, 0),
        ("LRN", 1, {"size": 3}, 0),
        ("LRN", 13, {"size": 3}, 0),
        ("MeanVarianceNormalization", 9, {}, 0),
    ],
)
def test_same_type_and_shape(
    op_type: str, opset: int, attributes: dict[str, int], channels: int
) -> None:
    x = tensor("n", 4, "h", "s")
    inputs: list[Given] = [x, tensor(channels), tensor(channels)] if channels else [x]
    assert check(op_type, inputs, attributes, opset=opset, assignments=SIZES) == [x]
    assert infer(op_type, [UNKNOWN], attributes, opset=opset) == [Info()]
