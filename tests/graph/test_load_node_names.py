"""Names of nodes, which are unique in a loaded model: onnxruntime refuses a graph with equal
names.
"""

from pathlib import Path

import onnx
import pytest

from tests.support import parse
from xoptim import optimize, optimize_file
from xoptim.facts.protos import every_node
from xoptim.graph.export import export_model
from xoptim.graph.load import load_model
from xoptim.verification import verify_models

EQUAL = (
    "agraph (float[B,4] x) => (float[B,4] y) { [n] a = Relu(x) [n] b = Sigmoid(a) [n] "
    "y = Mul(a, b) }"
)
NESTED = """agraph (float[4] x, bool c) => (float[4] y) {
    [n] a = own.f(x) [n_1] b = own.f(a) [n] d = Add(a, b)
    [i] y = If(c) <then_branch = t () => (p) { [n] q = Exp(d) [k] o = Abs(q) [k] p = Neg(o) },
                   else_branch = e () => (r) { [k] r = Tanh(d) }> }
    <domain: "own",
      opset_import: ["" : 18]> f (x) => (y) { [n] z = Sigmoid(x) [n] v = Cos(z) y = Sin(v) }"""


def names(model: onnx.ModelProto) -> list[str]:
    """The names of the nodes of the main graph, of its subgraphs, and of functions, in order."""
    parts = (model.graph.node, *(function.node for function in model.functions))
    return [node.name for part in parts for node in every_node(part)]


def loaded(text: str) -> onnx.ModelProto:
    return export_model(load_model(parse(text, domains={"own": 1})))


def test_the_first_keeps_its_name() -> None:
    assert names(loaded(EQUAL)) == ["n", "n_1", "n_2"]


def test_subgraphs_and_functions_are_included() -> None:
    given = parse(NESTED, domains={"own": 1})
    before = given.SerializeToString()
    found = names(export_model(load_model(given)))
    assert found == ["n", "n_1", "n_2", "i", "n_3", "k", "k_1", "k_2", "n_4", "n_5", ""]
    assert given.SerializeToString() == before
    assert names(loaded(NESTED)) == found


def test_unique_and_empty_names_stay() -> None:
    text = (
        "agraph (float[4] x) => (float[4] y) { [n] a = Relu(x) b = Exp(a) c = Abs(b) [n_1] "
        "y = Neg(c) }"
    )
    assert names(loaded(text)) == ["n", "", "", "n_1"]


@pytest.mark.parametrize("text", [EQUAL, NESTED])
def test_the_original_runs_too(text: str) -> None:
    given = parse(text, domains={"own": 1})
    report = verify_models(given, optimize(given))
    assert (report.status, report.reason) == ("equal", "")


def test_a_file_runs_too(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(parse(EQUAL).SerializeToString())
    optimize_file(path, tmp_path / "new.onnx", verify=True)
    assert verify_models(path, tmp_path / "new.onnx").status == "equal"
