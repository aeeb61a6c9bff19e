"""Facts about custom operators that a pack states, and models with their definitions."""

from typing import Any

import onnx
import pytest
from onnx.defs import OpSchema

from tests.support import parse
from xoptim import EasyPatternOptimization, PatternError, XoptimError, infer, optimize
from xoptim.operators import Operator, Trait, like, passes
from xoptim.operators.registry import add_operators, is_deterministic, operator_of
from xoptim.verification.runs.protos import with_definitions

pytestmark = pytest.mark.usefixtures("own_operators")


def definition(text: str, domain: str = "acme") -> onnx.FunctionProto:
    header = f'<domain: "{domain}", opset_import: ["": 13, "acme": 1]>'
    return onnx.parser.parse_function(f"{header} {text}")


def schema(name: str, domain: str = "acme") -> OpSchema:
    operands, results = ([OpSchema.FormalParameter(letter, "T")] for letter in "xy")
    attribute = OpSchema.Attribute("k", onnx.helper.make_attribute("k", 2))
    types = [("T", ["tensor(float)"], "")]
    return OpSchema(
        name,
        domain,
        1,
        inputs=operands,
        outputs=results,
        type_constraints=types,
        attributes=[attribute],
    )


TWICE = "Twice (x) => (y) { y = Add(x, x) }"
CALL = "agraph (float[n,4] x) => (float[n,4] y) { t = acme.Twice(x) y = Neg(t) }"
"""Calls of one operator."""


@pytest.mark.parametrize("name", ["Relu", "::Relu", "ai.onnx::Foo", "com.microsoft::Foo", "acme::"])
def test_only_custom_operators_are_described(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}'"):
        add_operators({name: Operator()})
    assert operator_of("", "Relu").definition is None


def test_a_description_belongs_to_its_operator() -> None:
    for stated in (Operator(definition=definition(TWICE)), Operator(schema=schema("Twice"))):
        with pytest.raises(ValueError, match=r"acme::Once .*acme::Twice"):
            add_operators({"acme::Once": stated})
    assert operator_of("acme", "Once") is operator_of("acme", "Unknown"), "nothing is kept"
    add_operators({"acme::Twice": Operator(schema=schema("Twice"))})
    with pytest.raises(ValueError, match=r"acme::Twice .*twice"):
        add_operators({"acme::Twice": Operator()})


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("y = Sigmoidd(x)", "Sigmoidd"),
        ("y = Gelu(x)", "Gelu"),  # since operator set 20
        ("y = LeakyRelu <slope = 0.1> (x)", "slope"),
        ("y = Relu(t)", "'t'"),
        ("t = Relu(x)", "'y'"),
    ],
)
def test_a_definition_is_a_valid_function(body: str, name: str) -> None:
    stated = Operator(definition=definition(f"Twice (x) => (y) {{ {body} }}"))
    with pytest.raises(ValueError, match=f"definition of acme::Twice .*{name}"):
        add_operators({"acme::Twice": stated})
    assert operator_of("acme", "Twice").definition is None


def test_a_kind_of_operand_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match=r"acme::Rows .*'indices'"):
        add_operators({"acme::Rows": Operator(operand_kinds={1: "indices"})})  # type: ignore[dict-item]


def test_a_model_gets_the_definitions_that_it_needs() -> None:
    model = parse(CALL, domains={"acme": 1}, ir_version=7)
    assert with_definitions(model) is model
    four = "Four (x) => (y) { t = acme.Twice(x) y = acme.Twice(t) }"
    add_operators(
        {
            "acme::Twice": Operator(definition=definition(TWICE)),
            "acme::Four": Operator(definition=definition(four)),
        }
    )
    defined = with_definitions(model)
    assert [function.name for function in defined.functions] == ["Twice"]
    assert (defined.ir_version, model.ir_version, len(model.functions)) == (8, 7, 0)
    nested = parse(CALL.replace("Twice", "Four"), domains={"acme": 1})
    assert [function.name for function in with_definitions(nested).functions] == ["Four", "Twice"]
    branch = (
        "agraph (bool c, float[n] x) => (float[n] y) { y = If <then_branch = g () => (float[n] a) "
        "{ a = acme.Twice(x) }, else_branch = h () => (float[n] b) { b = Neg(x) }> (c) }"
    )
    assert len(with_definitions(parse(branch, domains={"acme": 1})).functions) == 1


def test_a_function_of_the_model_counts_more() -> None:
    add_operators({"acme::Twice": Operator(definition=definition(TWICE))})
    text = f'{CALL} <domain: "acme", opset_import: ["" : 18]> Twice (x) => (y) {{ y = Neg(x) }}'
    model = parse(text, domains={"acme": 1})
    assert with_definitions(model) is model


def test_operator_sets_of_a_definition_are_imported() -> None:
    text = "Smooth (x) => (y) { y = com.microsoft.Gelu(x) }"
    header = '<domain: "acme", opset_import: ["": 13, "com.microsoft": 1]>'
    smooth = onnx.parser.parse_function(f"{header} {text}")
    add_operators({"acme::Smooth": Operator(definition=smooth)})
    defined = with_definitions(parse(CALL.replace("Twice", "Smooth"), domains={"acme": 1}))
    assert [entry.domain for entry in defined.opset_import] == ["", "acme", "com.microsoft"]


def test_an_operator_with_a_definition_is_deterministic() -> None:
    noise = "Noise (x) => (y) { n = RandomNormalLike(x) y = Add(n, x) }"
    loud = "Loud (x) => (y) { t = acme.Noise(x) y = Add(t, t) }"
    assert not is_deterministic("Twice", "acme")
    add_operators(
        {
            "acme::Loud": Operator(definition=definition(loud)),
            "acme::Noise": Operator(definition=definition(noise)),
            "acme::Twice": Operator(definition=definition(TWICE)),
            "acme::Clock": Operator(
                definition=definition(TWICE.replace("Twice", "Clock")),
                traits={Trait.NON_DETERMINISTIC},
            ),
        }
    )
    assert is_deterministic("Twice", "acme")
    assert not any(is_deterministic(name, "acme") for name in ("Noise", "Loud", "Clock"))
    text = "agraph (float[n] x) => (float[n] y) { t = acme.{0}(x) u = acme.{0}(x) y = Add(t, u) }"
    for name, count in (("Twice", 2), ("Noise", 3), ("Loud", 3)):
        model = parse(text.replace("{0}", name), domains={"acme": 1})
        assert len(optimize(model).graph.node) == count


def test_a_definition_that_calls_itself() -> None:
    endless = Operator(definition=definition("Endless (x) => (y) { y = acme.Endless(x) }"))
    with pytest.raises(RecursionError):
        add_operators({"acme::Endless": endless})


def test_shapes_follow_from_the_formula() -> None:
    model = parse(CALL, domains={"acme": 1})
    assert "t" not in {value.name for value in infer(model).graph.value_info}
    add_operators({"acme::Twice": Operator(formula=like(0), operations=passes(1))})
    (value,) = infer(model).graph.value_info
    assert (value.name, value.type) == ("t", model.graph.input[0].type)


class TwicePattern(EasyPatternOptimization):
    """acme.Twice(x) → Add(x, x)."""

    def match_pattern(self, g: Any, x: Any) -> Any:
        return g.op.Twice(x, domain="acme")

    def apply_pattern(self, g: Any, x: str) -> Any:
        return g.op.Add(x, x)


class MisspelledPattern(EasyPatternOptimization):
    """acme.Twce(x) → Neg(x)."""

    def match_pattern(self, g: Any, x: Any) -> Any:
        return g.op.Twce(x, domain="acme")

    def apply_pattern(self, g: Any, x: str) -> Any:
        return g.op.Neg(x)


class WrongAttributePattern(EasyPatternOptimization):
    """Neg(x) → acme.Twice(x)."""

    def match_pattern(self, g: Any, x: Any) -> Any:
        return g.op.Neg(x)

    def apply_pattern(self, g: Any, x: str) -> Any:
        return g.op.Twice(x, j=3, domain="acme")


def test_an_attribute_that_is_not_mentioned_has_the_default_of_the_schema() -> None:
    add_operators({"acme::Twice": Operator(schema=schema("Twice"))})
    for value, count in ((2, 0), (3, 1)):
        text = CALL.replace("Twice", f"Twice <k = {value}> ")
        after = optimize(parse(text, domains={"acme": 1}), patterns=[TwicePattern])
        assert [node.op_type for node in after.graph.node].count("Twice") == count


def test_calls_are_checked_by_the_schema() -> None:
    add_operators({"acme::Twice": Operator(schema=schema("Twice"))})
    model = parse(CALL, domains={"acme": 1})
    with pytest.raises(PatternError, match=r"acme::Twce; .*'Twice'"):
        optimize(model, patterns=[MisspelledPattern])
    with pytest.raises(XoptimError, match=r"acme::Twice .*'j' .* k\)"):
        optimize(model, patterns=[WrongAttributePattern], strict=True)
    types = parse(CALL.replace("float[", "double["), domains={"acme": 1})
    assert optimize(types, strict=True).graph.node, "what a model has is not checked"
