"""Passes are proved by the values of the model before and after them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import parse, values_in, with_external_data
from xoptim import ModelPass, OptimizationOptions
from xoptim.graph.edit import Edit
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.graph.sources import Source
from xoptim.graph.tensors import Tensor
from xoptim.optimizing.plans import Plan, VerifyPlan
from xoptim.optimizing.verified import optimize_verified
from xoptim.passes import fold
from xoptim.passes.opsets import newest as raising, plan as planning
from xoptim.passes.opsets.plan import OpsetPlan
from xoptim.passes.repeated import writing
from xoptim.proof.observer import ProofObserver
from xoptim.proof.passes import ProvedPass

MODEL = """g (float[N,4] x) => (float[N,4] y) <float[4] w = {1, 2, 3, 4}, float s = {3}> {
    d = Neg(x) i = Identity(x) v = Mul(w, s) a = Add(i, v) b = Add(v, i) y = Mul(a, b) }"""


class WrongPass(ModelPass):
    """Add → Sub, which it is not"""

    def run(self, model: Model) -> int:
        nodes = model.graph.of_type("Add")
        for node in nodes:
            position = node.previous
            model.graph.remove(node)
            model.graph.insert(Node("Sub", node.input, node.output), position)
        return len(nodes)


class RightPass(WrongPass):
    """Add(x, y) → Add(y, x)"""

    def run(self, model: Model) -> int:
        nodes = [node for node in model.graph.of_type("Add") if node.input[0] > node.input[1]]
        for node in nodes:
            position = node.previous
            model.graph.remove(node)
            model.graph.insert(Node("Add", node.input[::-1], node.output), position)
        return len(nodes)


def _proofs(*patterns: Any, model: str = MODEL, **options: Any) -> ProofObserver:
    chosen = OptimizationOptions(patterns=[*patterns], **options)
    plan = Plan(verify=VerifyPlan(proves=True, whole=False))
    proofs = optimize_verified(parse(model), chosen, plan).proofs
    assert proofs is not None
    return proofs


def test_folding_merging_and_cleaning_are_proved() -> None:
    proofs = _proofs()
    records = {record.name: record for record in proofs.passes}
    assert {"remove_unused", "remove_identity", "constant_folding", "merge_nodes"} <= {*records}
    assert {record.grade for record in proofs.passes} == {"same bits"}
    assert records["constant_folding"].recomputed == 1
    count = str(len(records))
    assert values_in(proofs.summary()) == [count, count, "1", count]


def test_a_constant_that_is_folded_wrongly_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    def add(self: fold.Folder, name: str, tensor: Tensor, node: Node, previous: Any) -> None:
        wrong = Tensor.from_array(tensor.numpy() + np.float32(1e-6))
        right_add(self, name, wrong, node, previous)

    right_add = fold.Folder._add
    monkeypatch.setattr(fold.Folder, "_add", add)
    proofs = _proofs()
    reasons = {record.name: values_in(record.reason) for record in proofs.passes if record.reason}
    assert reasons == {"constant_folding": ["y"]}
    assert proofs.summary().endswith("(constant_folding)")


def test_a_pass_is_proved_or_only_run() -> None:
    right, wrong = _proofs(RightPass), _proofs(WrongPass)
    assert [(s.pattern, s.proof.grade) for s in right.steps] == [("RightPass", "same bits")]
    (step,) = wrong.steps
    assert (step.proof.grade, values_in(step.proof.reason)) == ("only run", ["y"])


def test_shape_arithmetic_is_proved() -> None:
    model = """g (float[N,M,4] x) => (float[A,B] y) { s = Shape(x) n = Shape <end = 1> (x)
        m = Shape <start = 1, end = 2> (x) c = Constant <value_ints = [4]> () a = Mul(n, m)
        b = Mul(m, n) k = Concat <axis = 0> (a, c) l = Concat <axis = 0> (b, c)
        p = Reshape(x, k) q = Reshape(x, l) y = Add(p, q) }"""
    proofs = _proofs("ShapeArithmetic", model=model)
    assert all(step.proof.is_proved for step in proofs.steps)
    assert {record.grade for record in proofs.passes} == {"same bits"}


def test_outlining_is_proved() -> None:
    layer = "a{0} = Exp({1}) b{0} = Sin(a{0}) c{0} = Mul(b{0}, {1}) d{0} = Tanh(c{0}) "
    names = ["x", *(f"d{number}" for number in range(6))]
    nodes = "".join(layer.format(number, name) for number, name in enumerate(names[:-1]))
    model = f"g (float[N] x) => (float[N] y) {{ {nodes} y = Neg(d5) }}"
    records = {record.name: record for record in _proofs(model=model, outline=True).passes}
    assert records["outline"].grade == "same bits"


def _raised(model: str, opset: int, target: int) -> ProvedPass:
    plan = Plan(verify=VerifyPlan(proves=True, whole=False))
    options = OptimizationOptions(patterns=None, opset=target)
    proofs = optimize_verified(parse(model, opset), options, plan).proofs
    assert proofs is not None
    (record,) = (x for x in proofs.passes if x.name == "raise_operator_set")
    return record


@pytest.mark.parametrize(
    ("nodes", "opset", "grade"),
    [
        ("y = Softmax(x)", 11, "over real numbers"),
        ("a = Relu(x) y = Add(a, x)", 11, "over real numbers"),
        ("a = Unsqueeze <axes = [0]> (x) y = Squeeze <axes = [0]> (a)", 11, "same bits"),
        ("y = Slice <starts = [0], ends = [2], axes = [1]> (x)", 9, "same bits"),
        ("a = ReduceSum <axes = [1], keepdims = 1> (x) y = Mul(x, a)", 11, "over real numbers"),
        ("y = Clip <min = 0.0, max = 6.0> (x)", 9, "over real numbers"),
    ],
)
def test_a_newer_operator_set_is_proved(nodes: str, opset: int, grade: str) -> None:
    record = _raised(f"g (float[N,4] x) => (float[A,B] y) {{ {nodes} }}", opset, 18)
    assert (record.reason, record.grade) == ("", grade)


def test_constants_in_another_file_are_read(tmp_path: Path) -> None:
    text = "g (float[N,4] x) => (float[N,6] y) <int64[4] p = {0, 1, 0, 1}> { y = Pad(x, p) }"
    path = with_external_data(parse(text, 11), tmp_path)
    plan = Plan(verify=VerifyPlan(proves=True, whole=False))
    options = OptimizationOptions(patterns=None, opset=18)
    proofs = optimize_verified(Source(path), options, plan).proofs
    assert proofs is not None
    assert [record.grade for record in proofs.passes] == ["same bits"]


def test_an_operator_without_a_definition_is_only_run() -> None:
    record = _raised("g (float[N,4] x) => (float[A,B] y) { y = Hardmax(x) }", 11, 18)
    assert record.grade == "only run"
    assert record.reason.startswith("Hardmax ")


def test_a_node_that_is_raised_wrongly_is_only_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def along_rows(model: Model, planned: OpsetPlan) -> int:
        for calls in planned.calls.values():
            for call in calls:
                if call.op_type == "Softmax":
                    call.attributes["axis"] = 0
        return right(model, planned)

    right = planning.carry_out
    monkeypatch.setattr(raising, "carry_out", along_rows)
    record = _raised("g (float[N,4,5] x) => (float[A,B,C] y) { y = Softmax(x) }", 11, 18)
    assert record.grade == "only run"


def test_subgraphs_in_a_newer_operator_set_are_only_run() -> None:
    record = _raised(
        "g (float[N] x, bool c) => (float[N] y) { y = If (c) <then_branch = t () => (float[N] p) "
        "{ p = Clip <min = 0.0> (x) }, else_branch = e () => (float[N] q) { q = Abs(x) }> }",
        9,
        18,
    )
    assert record.grade == "only run"
    assert "subgraphs" in record.reason


def test_an_older_operator_set_is_only_run() -> None:
    model = "g (float[N,4] x) => (float[N,4] y) { y = Softmax(x) }"
    plan = Plan(verify=VerifyPlan(proves=True, whole=False))
    options = OptimizationOptions(patterns=None, opset=11)
    proofs = optimize_verified(parse(model, 18), options, plan).proofs
    assert proofs is not None
    assert any(record.grade == "only run" for record in proofs.passes)


STACKED = """g (float[n,2] x) => (float[n,2] y) <float[2,2] u = {1, 2, 3, 4}, float[2,2] v =
    {5, 6, 7, 8}, float[2,2] w = {0.5, 0.25, 0, 1}> { a = MatMul(x, u) b = MatMul(x, v)
    c = MatMul(x, w) d = Tanh(a) e = Tanh(b) f = Tanh(c) y = Sum(d, e, f) }"""


def test_repeated_operations_are_proved() -> None:
    proofs = _proofs("Repeated", model=STACKED)
    (step,) = (step for step in proofs.steps if step.pattern == "Repeated")
    assert step.proof.grade == "over real numbers"
    assert step.proof.premises[0] in ("sizes from 0", "sizes from 1")


def test_stacks_of_other_weights_are_only_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def reversed_stack(edit: Edit, array: np.ndarray) -> str:
        return right(edit, array[::-1] + np.float32(0.01))

    right = writing.store_stack
    monkeypatch.setattr(writing, "store_stack", reversed_stack)
    (step,) = (s for s in _proofs("Repeated", model=STACKED).steps if s.pattern == "Repeated")
    assert step.proof.grade == "only run"
    assert step.proof.reason.startswith("stacks: ")
