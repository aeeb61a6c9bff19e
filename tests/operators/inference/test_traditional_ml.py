"""Operators of ``ai.onnx.ml``, against runs of onnxruntime."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tests.operators.inference.context import infer
from tests.operators.inference.oracle import check_run, session, tensor
from xoptim.facts.dims import Dim, SymbolicDim, evaluate, named
from xoptim.facts.dtypes import numpy_dtype
from xoptim.facts.shapes import UNKNOWN, Info
from xoptim.operators.inference.types import info_to_type_proto, type_proto_to_info

DOMAIN = "ai.onnx.ml"
N = named("n")
F, I64, TEXT = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING


def check(
    op_type: str,
    inputs: list[Info],
    attributes: dict[str, Any],
    *,
    version: int = 3,
    outputs: int = 1,
) -> list[Info]:
    """Facts about each output, after comparing them with the onnx package and with two runs."""
    infos = infer(op_type, inputs, attributes, domain=DOMAIN, opset=version, num_outputs=outputs)
    names = [f"x{i}" for i in range(len(inputs))]
    node = onnx.helper.make_node(
        op_type, names, [f"y{i}" for i in range(outputs)], domain=DOMAIN, **attributes
    )
    values = [
        onnx.helper.make_value_info(n, info_to_type_proto(i))
        for n, i in zip(names, inputs, strict=True)
    ]
    results = [
        onnx.helper.make_value_info(n, info_to_type_proto(Info(i.dtype)))
        for n, i in zip(node.output, infos, strict=True)
    ]
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid(DOMAIN, version)]
    graph = onnx.helper.make_graph([node], "g", values, results)
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)
    for value, info in zip(
        onnx.shape_inference.infer_shapes(model, strict_mode=True).graph.output, infos, strict=True
    ):
        theirs = type_proto_to_info(value.type)
        assert theirs.shape is None or theirs == info
    runner = session(model)
    for rows in (1, 3):
        sizes = {"n": rows}
        feeds = {}
        for name, info in zip(names, inputs, strict=True):
            shape = [evaluate(dim, sizes) for dim in info.shape or ()]
            text = info.dtype == TEXT
            feeds[name] = (
                np.full(shape, "a", object) if text else np.ones(shape, numpy_dtype(info.dtype))
            )
        for info, result in zip(infos, runner.run(None, feeds), strict=True):
            check_run(info, np.asarray(result), dict(sizes))
    return infos


@pytest.mark.parametrize("dtype", [F, I64, TensorProto.DOUBLE])
def test_scaling(dtype: int) -> None:
    x = tensor("n", 4, dtype=dtype)
    assert check("Scaler", [x], {"offset": [0.0] * 4, "scale": [1.0] * 4}) == [tensor("n", 4)]
    assert check("Normalizer", [x], {"norm": "L2"}) == [tensor("n", 4)]


def test_imputer() -> None:
    floats = {"imputed_value_floats": [0.0] * 4, "replaced_value_float": 0.0}
    assert check("Imputer", [tensor("n", 4)], floats) == [tensor("n", 4)]
    numbers = {"imputed_value_int64s": [0] * 4, "replaced_value_int64": 0}
    assert check("Imputer", [tensor("n", 4, dtype=I64)], numbers) == [tensor("n", 4, dtype=I64)]


def test_label_encoder() -> None:
    classes = {"classes_strings": ["a", "b"]}
    assert check("LabelEncoder", [tensor("n", dtype=TEXT)], classes, version=1) == [
        tensor("n", dtype=I64)
    ]
    assert check("LabelEncoder", [tensor("n", dtype=I64)], classes, version=1) == [
        tensor("n", dtype=TEXT)
    ]
    for version in (2, 4):
        table: dict[str, Any] = {"keys_int64s": [1], "values_floats": [2.0]}
        assert check("LabelEncoder", [tensor("n", dtype=I64)], table, version=version) == [
            tensor("n")
        ]
        table = {"keys_strings": ["a"], "values_int64s": [2]}
        assert check("LabelEncoder", [tensor("n", 2, dtype=TEXT)], table, version=version) == [
            tensor("n", 2, dtype=I64)
        ]
    keys, values = (
        onnx.helper.make_tensor("t", kind, [1], [1]) for kind in (I64, TensorProto.INT16)
    )
    tensors = {"keys_tensor": keys, "values_tensor": values}
    assert infer("LabelEncoder", [tensor("n")], tensors, domain=DOMAIN, opset=4) == [
        tensor("n", dtype=5)
    ]
    assert infer("LabelEncoder", [tensor("n")], {}, domain=DOMAIN, opset=4) == [
        tensor("n", dtype=0)
    ]


def test_regressors() -> None:
    for x, rows in ((tensor("n", 4), N), (tensor(4), 1)):
        linear = {"coefficients": [0.5] * 8, "targets": 2}
        assert check("LinearRegressor", [x], linear) == [Info(F, (rows, 2))]
        vectors = {
            "n_supports": 1,
            "support_vectors": [0.5] * 4,
            "coefficients": [1.0],
            "rho": [0.0],
            "kernel_type": "LINEAR",
        }
        assert check("SVMRegressor", [x], {**vectors, "kernel_params": [1.0, 0.0, 3.0]}) == [
            Info(F, (rows, 1))
        ]


@pytest.mark.parametrize(
    "labels", [{"classlabels_ints": [0, 1, 2]}, {"classlabels_strings": ["a", "b", "c"]}]
)
@pytest.mark.parametrize("probabilities", [{}, {"prob_a": [1.0] * 3, "prob_b": [0.0] * 3}])
def test_classifier(labels: dict[str, Any], probabilities: dict[str, Any]) -> None:
    attributes: dict[str, Any] = {
        "vectors_per_class": [1, 1, 1],
        "support_vectors": [0.5] * 12,
        "kernel_type": "LINEAR",
    }
    attributes |= {"coefficients": [1.0] * 6, "rho": [0.0] * 3, "kernel_params": [1.0, 0.0, 3.0]}
    label, scores = check(
        "SVMClassifier", [tensor("n", 4)], {**attributes, **labels, **probabilities}, outputs=2
    )
    assert label == Info(I64 if "classlabels_ints" in labels else TEXT, (N,))
    assert scores.shape is not None
    assert isinstance(scores.shape[1], SymbolicDim)


_STUMP: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}


def _leaves(kind: str) -> dict[str, Any]:
    return {
        f"{kind}_treeids": [0, 0],
        f"{kind}_nodeids": [1, 2],
        f"{kind}_ids": [0, 1],
        f"{kind}_weights": [0.25, 0.5],
    }


@pytest.mark.parametrize("version", [1, 3])
def test_trees(version: int) -> None:
    examples: list[tuple[Info, Dim]] = [(tensor("n", 4), N), (tensor(4), 1)]
    # the onnx package refuses one axis from version 3 on
    for x, rows in examples[: 2 if version == 1 else 1]:
        regressor = {**_STUMP, **_leaves("target"), "n_targets": 2}
        assert check("TreeEnsembleRegressor", [x], regressor, version=version) == [
            Info(F, (rows, 2))
        ]
        for labels, dtype in (
            ({"classlabels_int64s": [4, 5]}, I64),
            ({"classlabels_strings": ["a", "b"]}, TEXT),
        ):
            found = check(
                "TreeEnsembleClassifier",
                [x],
                {**_STUMP, **_leaves("class"), **labels},
                version=version,
                outputs=2,
            )
            assert found == [Info(dtype, (rows,)), Info(F, (rows, 2))]
    unknown = infer("TreeEnsembleRegressor", [tensor("n", 4)], {}, domain=DOMAIN, opset=version)[0]
    assert unknown.shape is not None
    assert isinstance(unknown.shape[1], SymbolicDim)


def test_array_feature_extractor() -> None:
    places = {"": tensor(dtype=I64), "1": tensor(1, dtype=I64), "3": tensor(3, dtype=I64)}
    assert infer(
        "ArrayFeatureExtractor", [tensor("n", 4), places[""]], {}, domain=DOMAIN, opset=1
    ) == [tensor("n", 1)]
    for key, count in (("1", 1), ("3", 3)):
        assert check("ArrayFeatureExtractor", [tensor("n", 4), places[key]], {}) == [
            tensor("n", count)
        ]
        assert check("ArrayFeatureExtractor", [tensor("n", 2, 4), places[key]], {}) == [
            tensor("n", 2, count)
        ]
    assert check("ArrayFeatureExtractor", [tensor(4), places["3"]], {}) == [tensor(1, 3)]
    assert (
        infer("ArrayFeatureExtractor", [UNKNOWN, places["3"]], {}, domain=DOMAIN, opset=1)[0].shape
        is None
    )


def test_feature_vectorizer() -> None:
    sizes = {"inputdimensions": [4, 3]}
    assert check("FeatureVectorizer", [tensor("n", 4), tensor("n", 3)], sizes) == [tensor("n", 7)]
    assert infer("FeatureVectorizer", [UNKNOWN], sizes, domain=DOMAIN, opset=1)[0].rank == 2
