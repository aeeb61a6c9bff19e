"""Models with custom operators are run by the definitions of packs."""

from pathlib import Path

import onnx
import pytest

from tests.support import parse
from xoptim import optimize, verify
from xoptim.operators import Indices, Lengths, Operator, Trait, like
from xoptim.operators.registry import add_operators
from xoptim.verification.errors import LoadError
from xoptim.verification.inputs.input_kinds import input_kinds
from xoptim.verification.inputs.landmarks import landmarks, steers
from xoptim.verification.judging.noise import noisy_graph
from xoptim.verification.runs.protos import read_defined
from xoptim.verification.runs.session import Session

pytestmark = pytest.mark.usefixtures("own_operators")
ACME = {"acme": 1}
DEFINITIONS = {
    "Twice": "Twice (x) => (y) { y = Add(x, x) }",
    "Lookup": "Lookup (table, i) => (y) { y = Gather(table, i) }",
    "Scale": "Scale (x) => (y) { e = Exp(x) s = ReduceSum(e) y = Div(e, s) }",
    "Total": "Total (x) => (y) { a = Constant <value_ints = [1]> () y = ReduceSum(x, a) }",
    "Root": "Root (x) => (y) { y = Sqrt(x) }",
}


@pytest.fixture(autouse=True)
def _defined(own_operators: None) -> None:
    header = '<domain: "acme", opset_import: ["": 13]>'
    functions = {
        name: onnx.parser.parse_function(f"{header} {text}") for name, text in DEFINITIONS.items()
    }
    add_operators(
        {
            f"acme::{name}": Operator(definition=function, formula=like(0))
            for name, function in functions.items()
        }
    )


def model(nodes: str, inputs: str = "float[n,4] x") -> onnx.ModelProto:
    return parse(f"agraph ({inputs}) => (float[n,4] y) {{ {nodes} }}", domains=ACME)


def test_a_custom_operator_is_its_definition() -> None:
    first, second = model("y = acme.Twice(x)"), model("y = Add(x, x)")
    for before, after in ((first, second), (second, first)):
        assert verify(before, after).status == "equal"
    wrong = verify(first, model("t = Add(x, x) y = Add(t, x)"))
    assert wrong.status == "different"
    assert not first.functions, "the model of the caller stays"


def test_files(tmp_path: Path) -> None:
    first, second = tmp_path / "a.onnx", tmp_path / "b.onnx"
    onnx.save(model("y = acme.Twice(x)"), first)
    onnx.save(model("y = Add(x, x)"), second)
    assert verify(first, second).status == "equal"
    assert Session(first).outputs


def test_values_are_those_that_the_definition_expects() -> None:
    """Indices are inside the table, and operands of Sqrt positive in some runs."""
    text = "float[9,4] t, int64[n] i"
    first = model("u = acme.Lookup(t, i) y = Neg(u)", text)
    assert verify(first, model("u = Gather(t, i) y = Neg(u)", text)).status == "equal"
    lost = verify(first, model("u = Gather(t, i) v = Relu(u) y = Neg(v)", text))
    assert lost.status == "different"
    wrong = verify(model("y = acme.Root(x)"), model("u = acme.Root(x) y = Abs(u)"))
    assert wrong.status == "equal", "a root is not negative"


def test_rounding_is_told_apart() -> None:
    after = model("e = Exp(x) s = ReduceSum(e) r = Reciprocal(s) y = Mul(e, r)")
    assert verify(model("y = acme.Scale(x)"), after).status == "equal"
    before = model("t = Neg(x) u = Neg(t) y = acme.Scale(u)")
    assert [node.op_type for node in optimize(before, verify=True).graph.node] == ["Scale"]


def test_a_library_counts_more() -> None:
    """Its kernels are asked, so the definitions say nothing about what runs."""
    called = model("y = acme.Twice(x)")
    assert read_defined(called, None, ["library.so"])[0] is called
    assert [function.name for function in read_defined(called, None, [])[0].functions] == ["Twice"]


def test_the_message_names_both_ways() -> None:
    ways = r'`custom_op_libs=\("FILE",\)` .*`use_operators\("PACK"\)` uses the def'
    with pytest.raises(LoadError, match=ways):
        Session(model("y = acme.Other(x)"))


def test_an_older_operator_set_than_that_of_the_definition() -> None:
    """The axes of ReduceSum were an attribute there."""
    text = "agraph (float[n,4] x) => (float[n,1] y) { y = acme.Total(x) }"
    new, old = (parse(text, opset, domains=ACME) for opset in (13, 12))
    assert verify(new, new).status == "equal"
    report = verify(old, old)
    assert (report.status, report.cause) == ("not verified", "load")


def test_the_verdict_says_whose_implementation_ran() -> None:
    first, second = model("y = acme.Twice(x)"), model("y = Add(x, x)")
    text = "acme::Twice: ran by the reference implementation of a pack"
    for before, after in ((first, second), (second, first), (first, first)):
        assert verify(before, after).notes == (text,)
    assert verify(second, second).notes == ()


def test_rounding_that_a_pack_states_is_part_of_the_noise() -> None:
    add_operators({"acme::Soft": Operator(traits={Trait.ROUNDS}), "acme::Softmax": Operator()})
    for name, nodes in (("Soft", ["Soft", "Mul"]), ("Softmax", ["Softmax"])):
        noisy, _ = noisy_graph(model(f"y = acme.{name}(x)"))
        assert [node.op_type for node in noisy.graph.node] == nodes


def test_numbers_at_which_an_operator_of_a_pack_changes_its_form() -> None:
    bounding = Operator(traits={Trait.BOUNDS})
    add_operators({"acme::Bend": Operator(kinks=(7.0, "limit")), "acme::Cap": bounding})
    assert landmarks(model("y = acme.Bend <limit = 2.5, slope = 4.5> (x)")).all == (2.5, 7.0)
    capped = parse(
        "agraph (float[n,4] x) => (float[n,4] y) <float c = {5}> { y = acme.Cap(x, c) }",
        domains=ACME,
    )
    assert landmarks(capped).all == (5.0,)


def test_operands_that_a_pack_describes() -> None:
    add_operators(
        {
            "acme::Rows": Operator(operand_kinds={1: Indices(0, "axis"), 2: Lengths(0, 1)}),
            "acme::Hold": Operator(carried=(0,)),
            "acme::Choose": Operator(operand_kinds={0: "mask"}, steered_from=0),
        }
    )
    text = "t = acme.Hold(i) u = acme.Rows <axis = 1> (s, t, k) v = acme.Choose(m) y = Add(u, v)"
    rows = model(text, "float[n,9] s, int64[n] i, int64[n] k, float[n,4] m")
    kinds = input_kinds(rows, {"i": 7, "k": 7, "m": 1, "s": 1})
    assert {name: kind.kind for name, kind in kinds.items()} == {
        "i": "index",
        "k": "length",
        "m": "mask",
        "s": "free",
    }
    assert (kinds["i"].limits, kinds["k"].limits) == ([(9, 0)], [(9, -1)])
    assert steers(rows)
    assert not steers(model("y = acme.Hold(x)"))
