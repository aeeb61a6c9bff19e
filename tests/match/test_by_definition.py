"""What a lowering writes by a definition, a fusion by the same definition recognizes."""

from typing import Any

import pytest

from tests.support import parse
from xoptim import optimize
from xoptim.facts.schema import attribute_defaults
from xoptim.match.by_definition import FusionByDefinition, LoweringByDefinition
from xoptim.operators.definitions import defined
from xoptim.operators.registry import OPERATORS

DEFINED = sorted(op for (domain, op), operator in OPERATORS.items() if operator.body and not domain)
CALLS = {
    ("", "Celu"): ("Celu <alpha = 2.0> (x)", 12),
    ("", "Elu"): ("Elu <alpha = 0.5> (x)", 9),
    ("", "HardSigmoid"): ("HardSigmoid <alpha = 0.25, beta = 0.75> (x)", 9),
    ("", "HardSwish"): ("HardSwish(x)", 14),
    ("", "LeakyRelu"): ("LeakyRelu <alpha = 0.25> (x)", 9),
    ("", "Mish"): ("Mish(x)", 18),
    ("", "PRelu"): ("PRelu(x, x)", 9),
    ("", "Selu"): ("Selu <alpha = 2.0, gamma = 1.5> (x)", 9),
    ("", "Sigmoid"): ("Sigmoid(x)", 9),
    ("", "Sinh"): ("Sinh(x)", 9),
    ("", "Softplus"): ("Softplus(x)", 9),
    ("", "Softsign"): ("Softsign(x)", 9),
    ("", "Swish"): ("Swish <alpha = 1.5> (x)", 24),
    ("", "Tan"): ("Tan(x)", 9),
    ("", "ThresholdedRelu"): ("ThresholdedRelu <alpha = 0.5> (x)", 10),
    ("com.microsoft", "BiasGelu"): ("com.microsoft.BiasGelu(x, b)", 9),
    ("com.microsoft", "FastGelu"): ("com.microsoft.FastGelu(x, b)", 9),
    ("com.microsoft", "Gelu"): ("com.microsoft.Gelu(x)", 9),
    ("com.microsoft", "QuickGelu"): ("com.microsoft.QuickGelu <alpha = 1.5> (x)", 7),
}
"""A call of each operator whose definition is one of floats, and the first operator set."""


def _pattern(base: type[Any], domain: str, op_type: str, opset: int) -> type[Any]:
    fields = {"operator": op_type, "domain": domain, "min_opset": opset, "produces": (domain,)}
    return type(f"{base.__name__}Pattern", (base,), fields)


@pytest.mark.parametrize(("key", "call"), CALLS.items(), ids=[op_type for _, op_type in CALLS])
def test_there_and_back(key: tuple[str, str], call: tuple[str, int]) -> None:
    text, opset = call
    model = parse(
        f"agraph (float[n,4] x, float[4] b) => (float[n,4] y) {{ y = {text} }}",
        max(opset, 18),
        domains={"com.microsoft": 1},
    )
    lower, fuse = (_pattern(b, *key, opset) for b in (LoweringByDefinition, FusionByDefinition))
    nodes = optimize(model, patterns=[lower()], strict=True)
    assert key[1] not in {node.op_type for node in nodes.graph.node}
    (node,) = optimize(nodes, patterns=[fuse()], strict=True).graph.node
    assert (node.domain, node.op_type) == key
    assert list(node.attribute) == list(model.graph.node[0].attribute)
    assert list(node.input) == list(model.graph.node[0].input)


@pytest.mark.parametrize("op_type", DEFINED)
def test_attributes_have_the_defaults_of_the_standard(op_type: str) -> None:
    operator = defined("", op_type)
    assert operator is not None
    stated = {name: pytest.approx(value) for name, value in operator.attributes.items()}
    assert attribute_defaults(op_type, "", 24) == stated
