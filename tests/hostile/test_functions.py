"""Local functions: nested, recursive, overloaded, and called wrongly."""

from collections.abc import Callable
from typing import Any

import onnx
import pytest

from tests.cli.command import Xopt, write
from tests.hostile.cases import (
    Case,
    Made,
    changed,
    check,
    listed,
    not_verified,
    optimized,
    refused,
    text,
)
from xoptim import ModelError, optimize

HEAD = '<domain: "local", opset_import: ["" : 18, "local" : 1]>'
BOMB = [f"f{i} (a) => (b) {{ t = local.f{i + 1}(a) b = local.f{i + 1}(t) }}" for i in range(40)]


def calling(graph: str, *functions: str) -> str:
    return f"agraph (float[n] x) => (float[n] y) {{ {graph} }} " + " ".join(
        f"{HEAD} {body}" for body in functions
    )


def model(graph: str, *functions: str) -> Callable[[], Made]:
    return text(calling(graph, *functions), domains={"local": 1})


def overload(found: onnx.ModelProto) -> None:
    found.functions[1].overload = found.graph.node[1].overload = "second"


def as_standard(found: onnx.ModelProto) -> None:
    found.functions[0].domain, found.functions[0].name = "", "Relu"


CALL = "y = local.f(x)"
INLINE: dict[str, Any] = {"options": ("--inline",)}
NEG, ABS = "f (a) => (b) { b = Neg(a) }", "f (a) => (b) { b = Abs(a) }"
NESTED = (
    "f (a) => (b) { c = local.g(a) b = Neg(c) }",
    "g (a) => (b) { c = Abs(a) b = Identity(c) }",
)
BRANCHING = (
    "f (u) => (v) { c = Constant <value = bool {1}> () "
    "v = If (c) <then_branch = t () => (q) { q = local.f(u) }, else_branch = e () "
    "=> (q) { q = Neg(u) }> }"
)
CASES = [
    optimized("function-nested", "functions that call functions", model(CALL, *NESTED), "f"),
    optimized(
        "function-inlined", "the same with `--inline`", model(CALL, *NESTED), "Abs Neg", **INLINE
    ),
    optimized(
        "function-overloaded",
        "two overloads",
        changed(calling("t = local.f(x) y = local.f(t)", NEG, ABS), overload, domains={"local": 1}),
        "f f",
    ),
    optimized(
        "function-overloaded-inlined",
        "the same with `--inline`",
        changed(calling("t = local.f(x) y = local.f(t)", NEG, ABS), overload, domains={"local": 1}),
        **INLINE,
    ),
    optimized(
        "function-unused", "a function that nothing calls", model("y = Relu(x)", NEG), "Relu"
    ),
    optimized(
        "function-standard",
        "a function with domain and name of a standard operator",
        changed(calling("y = Relu(x)", NEG), as_standard, domains={"local": 1}),
        "Relu",
    ),
    refused(
        "function-recursive",
        "a function that calls itself",
        model(CALL, "f (a) => (b) { b = local.f(a) }"),
        "local function 'f' calls itself",
    ),
    refused(
        "function-recursive-inlined",
        "the same with `--inline`",
        model(CALL, "f (a) => (b) { b = local.f(a) }"),
        "local function 'f' calls itself",
        **INLINE,
    ),
    refused(
        "function-recursive-two",
        "two functions that call each other",
        model(CALL, "f (a) => (b) { b = local.g(a) }", "g (a) => (b) { b = local.f(a) }"),
        "calls itself",
    ),
    refused(
        "function-recursive-branch",
        "a function that calls itself in a branch",
        model(CALL, BRANCHING),
        "local function 'f' calls itself",
    ),
    refused(
        "function-twice",
        "a function defined twice",
        model(CALL, NEG, ABS),
        "local function 'f' is defined twice",
    ),
    refused(
        "function-input-twice",
        "a function with two inputs of one name",
        model(CALL, "f (a, a) => (b) { b = Neg(a) }"),
        "input 'a' of local function 'f' is declared twice",
    ),
    refused(
        "function-captures",
        "a function that reads a result of the model",
        model(CALL, "f (a) => (b) { b = Neg(x) }"),
        "'Neg' reads 'x', which nothing defines",
    ),
    refused(
        "function-output",
        "a function that does not produce its output",
        model(CALL, "f (a) => (b) { c = Neg(a) }"),
        "'b' is not produced",
    ),
    not_verified(
        "function-missing",
        "a call of a function that is not there",
        model("y = local.h(x)", NEG),
        "onnxruntime cannot load",
        "h",
    ),
    not_verified(
        "function-operands",
        "a call with too many operands",
        model("y = local.f(x, x, x)", NEG),
        "onnxruntime cannot load",
        "f",
    ),
    not_verified(
        "function-no-operands",
        "a call with too few operands",
        model("y = local.f()", NEG),
        "onnxruntime cannot load",
        "f",
    ),
    not_verified(
        "function-results",
        "a call with too many results",
        model("y, z = local.f(x)", NEG),
        "onnxruntime cannot load",
        "f",
    ),
    not_verified(
        "function-attribute",
        "a function that needs an attribute which the call does not give",
        model(CALL, "f (a) => (b) { c = Constant <value_float: float = @alpha> () b = Mul(a, c) }"),
        "onnxruntime cannot load",
        "f",
    ),
    not_verified(
        "function-bomb",
        "forty functions, each calling the next one twice",
        model("y = local.f0(x)", *BOMB, "f40 (a) => (b) { b = Neg(a) }"),
        "its local functions expand to 1,099,511,627,776 nodes",
        "f0",
    ),
    refused(
        "function-bomb-inlined",
        "the same with `--inline`",
        model("y = local.f0(x)", *BOMB, "f40 (a) => (b) { b = Neg(a) }"),
        "without local functions the model would have 1,099,511,627,776 nodes; run without "
        "--inline",
        **INLINE,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_functions(xopt: Xopt, case: Case) -> None:
    check(case, xopt)


@listed(
    "function-python",
    "the same in Python, `optimize(model, inline=True)`",
    "`ModelError` with the same text",
)
@pytest.mark.parametrize("key", ["function-recursive", "function-bomb"])
def test_functions_in_python(key: str) -> None:
    (case,) = (case for case in CASES if case.id == key)
    assert case.make is not None
    with pytest.raises(ModelError, match=r"calls itself|would have"):
        optimize(case.make(), inline=True)


@listed("function-deep", "functions that call functions, 100 deep", "optimized")
def test_functions_within_functions(xopt: Xopt) -> None:
    depth = 100
    bodies = [f"f{level} (a) => (b) {{ b = local.f{level + 1}(a) }}" for level in range(depth)]
    write(
        calling("y = local.f0(x)", *bodies, f"f{depth} (a) => (b) {{ b = Neg(a) }}"),
        domains={"local": 1},
    )
    assert xopt("model.onnx", "--no-verify", "-q") == (0, "", "")
    assert len(onnx.load("model.opt.onnx").functions) == depth + 1
