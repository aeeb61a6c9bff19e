"""An operator of a pack, stated once: its definition, and where it changes its form."""

from importlib.metadata import EntryPoint

import numpy as np
import onnx
import pytest

from tests.support import parse
from xoptim import explain, installed_patterns, optimize, select, use_operators, verify
from xoptim.catalogue import discovery
from xoptim.operators import Operator
from xoptim.proof.proving import prove_models
from xoptim.verification.inputs.landmarks import landmarks
from xoptim.verification.judging.double import in_doubles
from xoptim.verification.runs.protos import with_definitions
from xoptim.verification.runs.session import Session

GATE = """<domain: "acme", opset_import: ["": 14]>
Gate <slope: float = 0.25, scale: float = 1.0> (x) => (y)
{
    half = Constant <value_float = 0.5> ()
    slope = Constant <value_float: float = @slope> ()
    scale = Constant <value_float: float = @scale> ()
    scaled = Mul (x, slope)
    line = Add (scaled, half)
    zero = Constant <value_float = 0.0> ()
    one = Constant <value_float = 1.0> ()
    clipped = Clip (line, zero, one)
    gated = Mul (x, clipped)
    y = Mul (gated, scale)
}"""
SPLIT = """<domain: "acme", opset_import: ["": 18]>
Halves (x) => (y) { a, b = Split <axis = -1, num_outputs = 2> (x) s = Sigmoid(b) y = Mul(a, s) }"""
BRANCH = """<domain: "acme", opset_import: ["": 14]>
Choice (c, x) => (y) { y = If (c) <then_branch = t () => (a) { a = Neg(x) },
else_branch = e () => (b) { b = Abs(x) }> }"""
START = '<domain: "acme", opset_import: ["": 12]> '
TEXTS = [
    "Noise (x) => (y) { r = RandomNormalLike(x) y = Add(x, r) }",
    "First (x, z) => (y) { y = Neg(x) }",
    "Same (x) => (x) { y = Neg(x) }",
    "Words <k: int = 2> (x) => (y) { c = Constant <value_int: int = @k> () y = Pow(x, c) }",
    "Soft (x) => (y) { y = Softmax(x) }",
    "Bent <a: float = 0.1> (x) => (y) { t = LeakyRelu <alpha: float = @a> (x) "
    "y = Elu <alpha: float = @a> (t) }",
    "Times <a: float = 2.0, b: float = 1.0> (x) => (y) { c = Constant <value_float: float = @a> () "
    "d = Constant <value_float: float = @b> () p = Mul(x, c) y = Div(p, d) }",
]
TYPED = """<domain: "acme", opset_import: ["": 15]>
Typed <slope: float = 0.25, scale: float = 1.0> (x) => (y)
{
    number = Constant <value_float = 0.7> ()
    shift = CastLike (number, x)
    slope = Constant <value_float: float = @slope> ()
    typed_slope = CastLike (slope, x)
    scale = Constant <value_float: float = @scale> ()
    typed_scale = CastLike (scale, x)
    product = Mul (x, typed_slope)
    line = Add (product, shift)
    gate = Sigmoid (line)
    y = Mul (gate, typed_scale)
}"""
OPERATORS = {
    "acme::Typed": Operator(definition=onnx.parser.parse_function(TYPED)),
    "acme::Gate": Operator(definition=onnx.parser.parse_function(GATE), kinks=(2.0,)),
    "acme::Halves": Operator(definition=onnx.parser.parse_function(SPLIT)),
    "acme::Choice": Operator(definition=onnx.parser.parse_function(BRANCH)),
    **{
        f"acme::{text.split()[0]}": Operator(definition=onnx.parser.parse_function(START + text))
        for text in TEXTS
    },
}
HEAD = "agraph (float[n,4] x) => (float[n,4] y)"
CALL = f"{HEAD} {{ y = acme.Gate <slope = 0.125> (x) }}"
NODES = (
    f"{HEAD} <float a = {{0.125}}, float h = {{0.5}}, float z = {{0}}, float o = {{1}}> "
    "{ s = Mul(a, x) t = Add(s, h) u = Clip(t, z, o) y = Mul(u, x) }"
)


@pytest.fixture(autouse=True)
def _pack(own_operators: None, monkeypatch: pytest.MonkeyPatch) -> None:
    pack = EntryPoint("acme", f"{__name__}:OPERATORS", "xoptim.operators")

    def entry_points(group: str) -> list[EntryPoint]:
        return [pack] if group == pack.group else []

    monkeypatch.setattr(discovery, "entry_points", entry_points)
    use_operators("acme")


def model(text: str) -> onnx.ModelProto:
    return parse(text, domains={"acme": 1})


def nodes(result: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in result.graph.node]


def test_the_definition_is_written() -> None:
    lowered = optimize(model(CALL), patterns=["LowerAcmeGate"], verify=True)
    assert nodes(lowered) == ["Mul", "Add", "Clip", "Mul"]
    scaled = CALL.replace("slope = 0.125", "scale = 3.0")
    assert nodes(optimize(model(scaled), patterns=["LowerAcmeGate"]))[3:] == ["Mul", "Mul"]
    endless = CALL.replace("slope = 0.125", "slope = inf")
    assert nodes(optimize(model(endless), patterns=["LowerAcmeGate"])) == ["Gate"]


def test_the_definition_is_recognized() -> None:
    fused = optimize(model(NODES), patterns=["FuseAcmeGate"], verify=True)
    assert nodes(fused) == ["Gate"]
    attributes = {a.name: a.f for a in fused.graph.node[0].attribute}
    assert attributes == {"slope": 0.125, "scale": 1.0}
    for number in ("o = {2}", "a = {0}"):
        other = NODES.replace(f"{number[0]} = {{{'1' if number[0] == 'o' else '0.125'}}}", number)
        assert other != NODES
        assert len(nodes(optimize(model(other), patterns=["FuseAcmeGate"]))) == 4
    split = "{ a, b = Split <axis = -1, num_outputs = 2> (x) s = Sigmoid(b) y = Mul(s, a) }"
    halves = f"agraph (float[n,4] x) => (float[n,2] y) {split}"
    assert nodes(optimize(model(halves), patterns=["FuseAcmeHalves"])) == ["Halves"]


@pytest.mark.parametrize("dtype", ["float", "float16"])
def test_numbers_of_the_type_of_an_operand(dtype: str) -> None:
    """A float definition would not load for float16: CastLike gives its constants the type."""
    call = f"agraph ({dtype}[n,4] x) => ({dtype}[n,4] y) {{ y = acme.Typed <slope = 0.5> (x) }}"
    lowered = optimize(model(call), patterns=["LowerAcmeTyped"], verify=True)
    assert nodes(lowered) == ["Mul", "Add", "Sigmoid"]
    fused = optimize(lowered, patterns=["FuseAcmeTyped"], verify=True)
    assert nodes(fused) == ["Typed"]
    assert {a.name: a.f for a in fused.graph.node[0].attribute} == {"slope": 0.5, "scale": 1.0}


def test_an_attribute_that_is_used_twice() -> None:
    text = f"{HEAD} {{ t = LeakyRelu <alpha = 0.25> (x) y = Elu <alpha = 0.25> (t) }}"
    for other, count in ((text, 1), (text.replace("= 0.25> (t)", "= 0.5> (t)"), 2)):
        fused = optimize(parse(other, 12, domains={"acme": 1}), patterns=["FuseAcmeBent"])
        assert len(fused.graph.node) == count


@pytest.mark.parametrize("dtype", ["float", "int64"])
def test_a_definition_that_only_multiplies_keeps_its_last_factor(dtype: str) -> None:
    """Its attributes are floats, which integers do not become."""
    text = f"agraph ({dtype}[n] x) => ({dtype}[n] y) <{dtype} c = {{4}}> {{ y = Div(x, c) }}"
    after = optimize(parse(text, 12, domains={"acme": 1}), patterns=["FuseAcmeTimes"], strict=True)
    assert nodes(after) == (["Times"] if dtype == "float" else ["Div"])
    if dtype == "float":
        assert {a.name: a.f for a in after.graph.node[0].attribute} == {"a": 1.0, "b": 4.0}


def test_an_operator_set_with_another_meaning() -> None:
    """Softmax works along the last axis from operator set 13 on, along all axes before."""
    call = f"{HEAD} {{ y = acme.Soft(x) }}"
    for opset, written in ((12, ["Softmax"]), (18, ["Soft"])):
        model_of_set = parse(call, opset, domains={"acme": 1})
        assert nodes(optimize(model_of_set, patterns=["LowerAcmeSoft"])) == written
        formula = parse(f"{HEAD} {{ y = Softmax(x) }}", opset, domains={"acme": 1})
        is_fused = nodes(optimize(formula, patterns=["FuseAcmeSoft"])) == ["Soft"]
        assert is_fused == (opset == 12)


def test_a_local_function_of_the_same_name() -> None:
    """Its calls follow the function, unless it has the definition of the pack."""
    header = '<domain: "acme", opset_import: ["": 18]>'
    other = model(f"{CALL} {header} Gate <slope: float = 1.0> (x) => (y) {{ y = Neg(x) }}")
    assert nodes(optimize(other, patterns=["LowerAcmeGate"])) == ["Gate"]
    apart = model(NODES)
    apart.functions.extend(other.functions)
    assert len(nodes(optimize(apart, patterns=["FuseAcmeGate"]))) == 4
    same = model(CALL)
    same.functions.append(onnx.parser.parse_function(GATE))
    assert len(nodes(optimize(same, patterns=["LowerAcmeGate"]))) == 4


def test_neither_is_in_a_preset() -> None:
    for preset in ("default", "onnxruntime", "finite", "approximate"):
        assert not any("Acme" in pattern.name() for pattern in select(preset))
    assert [pattern.name() for pattern in select("FuseAcmeGate")] == ["FuseAcmeGate"]
    assert "FuseAcmeGate" not in installed_patterns(), "it belongs to the operators in use"
    names = {pattern.name() for pattern in select("all+lower") if "Acme" in pattern.name()}
    operators = {name.partition("Acme")[2] for name in names}
    assert operators == {"Typed", "Gate", "Halves", "Soft", "Bent", "Times"}, (
        "the others have no plain nodes"
    )


def test_it_is_computed_in_float64() -> None:
    double = in_doubles(with_definitions(model(CALL)), None)
    assert double is not None
    x = np.linspace(-6, 6, 40).reshape(10, 4)
    (y,) = Session(double.proto).run({"x": x})
    assert np.array_equal(y, x * np.clip(x * 0.125 + 0.5, 0, 1))  # type: ignore[arg-type]


def test_a_proof_reads_the_definition() -> None:
    other = NODES.replace("y = Mul(u, x)", "v = Mul(u, x) w = Neg(v) y = Neg(w)")
    for text, is_proved in ((other, True), (other.replace("0.125", "0.25"), False)):
        assert prove_models(model(CALL), model(text)).is_proved == is_proved


def test_numbers_are_fed_where_it_changes_its_form() -> None:
    assert landmarks(model(CALL)).all == (2.0,)
    wrong = NODES.replace("o = {1}", "o = {0.9}")
    assert verify(model(CALL), model(wrong)).status == "different"


def test_it_is_explained_and_documented() -> None:
    (fuse,) = select("FuseAcmeGate")
    text = "Mul(Mul(x, Clip(Add(Mul(x, slope), 0.5), 0.0, 1.0)), scale) → acme.Gate(x)"
    assert type(fuse).arrow() == text
    far = NODES.replace("h = {0.5}", "h = {0.25}")
    assert "0.5" in str(explain(model(far), "FuseAcmeGate"))
