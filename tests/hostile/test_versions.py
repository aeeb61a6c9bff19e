"""Operator sets and formats of all ages, unknown domains."""

from collections.abc import Callable

import onnx
import pytest
from onnx import helper

from tests.cli.command import Xopt
from tests.hostile.cases import (
    NEWEST,
    PLAIN,
    Case,
    Made,
    changed,
    check,
    not_verified,
    optimized,
    refused,
    text,
)

pytestmark = pytest.mark.slow

MOVED = (
    "agraph (float[2,3] x) => (float[3,2] y) { t = Transpose <perm = [1,0]> (x) u = Identity(t) "
    "y = Sigmoid(u) }"
)
LISTED = """agraph (float[2,3] x, float[2,3] w) => (float[2,3] y) <float[2,3] w = {1,2,3,4,5,6}> {
  s = Add(x, w) t = Identity(s) y = Sigmoid(t)
}"""
FOREIGN = "agraph (float[2] x) => (float[2] y) {{ t = {}(x) u = Identity(t) y = Neg(u) }}"
# The table in the docs must not depend on the releases installed: what onnxruntime can run moves.
LOADED_OPSETS, LOADED_FORMATS = range(7, 24), range(3, 11)


def any_verdict(key: str, what: str, make: Callable[[], Made], operators: str) -> Case:
    return Case(
        key,
        what,
        "optimized; verified if onnxruntime can run it, else reported as not verified",
        make,
        reason=None,
        operators=operators.split(),
    )


def opset(version: int) -> Case:
    what = f"operator set {version}"
    if version in LOADED_OPSETS:
        return optimized(f"opset-{version}", what, text(MOVED, version), "Transpose Sigmoid")
    return any_verdict(f"opset-{version}", what, text(MOVED, version), "Transpose Sigmoid")


def ir_version(version: int) -> Case:
    make = text(LISTED, 7, ir_version=version)
    options = {"options": ("--patterns", "Cast")}
    if version in LOADED_FORMATS:
        return optimized(
            f"format-{version}", f"version {version} of the format", make, "Add Sigmoid", **options
        )
    return any_verdict(f"format-{version}", f"version {version} of the format", make, "Add Sigmoid")


def import_again(model: onnx.ModelProto) -> None:
    model.opset_import.add(domain="", version=18)


def elsewhere(model: onnx.ModelProto) -> None:
    model.opset_import[0].domain = "acme"


def versioned(version: int) -> Callable[[], Made]:
    def change(model: onnx.ModelProto) -> None:
        model.opset_import[0].version = version

    return changed(PLAIN.format("t = Identity(x) y = Relu(t)"), change)


def no_format(model: onnx.ModelProto) -> None:
    model.ClearField("ir_version")


def full_name(model: onnx.ModelProto) -> None:
    model.opset_import[0].domain = "ai.onnx"
    for index, node in enumerate(model.graph.node):
        node.domain = "ai.onnx" if index else ""


CASES = [
    *(opset(version) for version in range(1, 27)),
    any_verdict(
        "opset-newest",
        "the newest operator set that onnx has",
        text(MOVED, NEWEST),
        "Transpose Sigmoid",
    ),
    not_verified(
        "opset-future",
        "an operator set of the future",
        versioned(999),
        "onnxruntime cannot load",
        "Relu",
    ),
    not_verified("opset-zero", "operator set 0", versioned(0), "onnxruntime cannot load"),
    refused(
        "opset-negative",
        "operator set -5",
        versioned(-5),
        "operator set 'ai.onnx' has no version -5",
    ),
    optimized(
        "opset-twice",
        "an operator set imported twice",
        changed(MOVED, import_again),
        "Transpose Sigmoid",
    ),
    refused(
        "opset-none",
        "no import of the standard operator set",
        changed(MOVED, elsewhere),
        "but imports no version",
    ),
    optimized(
        "opset-full-name",
        "the standard operators under the name `ai.onnx`",
        changed(MOVED, full_name),
        "Transpose Sigmoid",
    ),
    *(ir_version(version) for version in range(1, 14)),
    not_verified(
        "format-future",
        "version 99 of the format",
        text(MOVED, ir_version=99),
        "onnxruntime cannot load",
        "Transpose Sigmoid",
    ),
    not_verified(
        "format-none",
        "no version of the format",
        changed(MOVED, no_format),
        "onnxruntime cannot load",
        "Transpose Sigmoid",
    ),
    optimized(
        "domain-ml",
        "`ai.onnx.ml`",
        text(
            "agraph (float[n,2] x) => (float[n,2] y) { "
            "t = ai.onnx.ml.Scaler <offset = [1.0, 2.0], scale = [1.0, 2.0]> (x) y = Identity(t) }",
            domains={"ai.onnx.ml": 3},
        ),
        "Scaler",
    ),
    optimized(
        "domain-microsoft",
        "`com.microsoft`, an operator with a formula for its shape",
        text(
            "agraph (float[n,2] x) => (float[n,2] y) { t = com.microsoft.Gelu(x) y = Identity(t) }",
            domains={"com.microsoft": 1},
        ),
        "Gelu",
    ),
    optimized(
        "domain-microsoft-shape",
        "`com.microsoft`, an operator without a formula for its shape",
        text(
            "agraph (float[2,2] x) => (y) { a = Constant <value = int32 {0}> () "
            "t = com.microsoft.ExpandDims(x, a) y = Identity(t) }",
            domains={"com.microsoft": 1},
        ),
    ),
    not_verified(
        "domain-microsoft-unknown",
        "`com.microsoft`, an operator that does not exist",
        text(
            "agraph (float[n,2] x) => (float[n,2] y) { t = com.microsoft.Frobnicate(x) "
            "y = Identity(t) }",
            domains={"com.microsoft": 1},
        ),
        "onnxruntime cannot load",
        "Frobnicate",
    ),
    not_verified(
        "domain-unknown",
        "an unknown domain",
        text(FOREIGN.format("acme.Frobnicate"), domains={"acme": 1}),
        "cannot load",
        "Frobnicate Neg",
    ),
    not_verified(
        "domain-not-imported",
        "a domain that is not imported",
        text(FOREIGN.format("acme.Frobnicate")),
        "cannot load",
        "Frobnicate Neg",
    ),
    not_verified(
        "domain-operator",
        "an operator that does not exist",
        text(FOREIGN.format("Frobnicate")),
        "cannot load",
        "Frobnicate Neg",
    ),
    not_verified(
        "domain-several",
        "operators of four domains in one model",
        text(
            "agraph (float[n,2] x) => (float[n,2] y) { "
            "a = ai.onnx.ml.Scaler <offset = [1.0], scale = [2.0]> (x) b = Identity(a) "
            "c = com.microsoft.Gelu(b) d = Identity(c) e = acme.F(d) f = Identity(e) y = Relu(f) }",
            domains={"ai.onnx.ml": 3, "com.microsoft": 1, "acme": 7},
        ),
        "cannot load",
        "Scaler Gelu F Relu",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_versions(xopt: Xopt, case: Case) -> None:
    check(case, xopt)


def test_all_operator_sets_are_tried() -> None:
    assert helper.VERSION_TABLE[-1][2] >= LOADED_OPSETS[-1]
    assert LOADED_FORMATS[-1] <= onnx.IR_VERSION
