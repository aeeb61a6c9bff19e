"""A replacement that computes the same: the subgraph once more, each node as a call of a function
of its own.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.match.garden import DOMAINS
from tests.match.planting import SPLIT, Call, Number, Operand, Outside, Parts, Pattern, Result
from xoptim.match import (
    ANY,
    Constant,
    EasyPatternOptimization,
    Node,
    PatternRewriter,
    Scalar,
    Variadic,
)
from xoptim.match.trace import Optional


def build(pattern: Pattern) -> EasyPatternOptimization:
    """An instance of the class that a drawn pattern describes."""
    names: dict[str, Any] = {
        kind.__name__: kind
        for kind in (EasyPatternOptimization, Constant, Scalar, Variadic, Optional)
    }
    names |= {"PATTERN": pattern, "rebuilt": rebuilt, "np": np, "ANY": ANY}
    exec(pattern.source(), names)
    found: EasyPatternOptimization = names["DrawnPattern"]()
    return found


def rebuilt(g: PatternRewriter, pattern: Pattern, given: dict[str, Any]) -> list[Any]:
    """The results of the subgraph, from what was captured.

    What is not captured is read from the matched nodes.
    """
    answers = {name: given[name] for name in pattern.variants()[0].answers}
    variant, nodes = pattern.variant(answers), given["found"]
    made: dict[Operand, Any] = {}
    old: dict[str, Any] = {}
    for index, (call, node) in enumerate(zip(variant.calls, nodes, strict=False)):
        operands = [_value(operand, made, given) for operand in call.operands]
        inputs = [
            name for value in operands for name in (value if isinstance(value, tuple) else (value,))
        ]
        if call.any_order:
            inputs = _ordered(call, node, operands, old, given)
        inputs += node.input[1:] if call.op is SPLIT else ()
        results = _call(g, call, _attributes(call, node, given), inputs, len(node.output))
        old.update(zip(node.output, results, strict=True))
        made |= {Result(index, place): name for place, name in enumerate(results)}
        if call.parts:
            made[Parts(call.parts)] = tuple(results)
    return [made[output] for output in variant.outputs]


def _value(operand: Operand, made: dict[Operand, Any], given: dict[str, Any]) -> Any:
    if isinstance(operand, Number):
        return (
            float(operand.value)
            if not isinstance(operand.value, tuple)
            else np.array(operand.value, np.float32)
        )
    return made[operand] if isinstance(operand, (Result, Parts)) else given[operand.name]


def _ordered(
    call: Call, node: Node, operands: Sequence[Any], old: dict[str, Any], given: dict[str, Any]
) -> list[Any]:
    """The operands in the order in which the node has them."""
    names = {given[operand.name] for operand in call.operands if isinstance(operand, Outside)}
    numbers = [
        value
        for operand, value in zip(call.operands, operands, strict=True)
        if isinstance(operand, Number)
    ]
    known = {
        *old,
        *names,
        *(n for v in operands for n in (v if isinstance(v, tuple) else (v,)) if isinstance(n, str)),
    }
    return [old.get(name, name) if name in known or not numbers else name for name in node.input]


def _attributes(call: Call, node: Node, given: dict[str, Any]) -> dict[str, Any]:
    specs = dict(call.attributes)
    found = {}
    for name, spec in specs.items():
        if spec.name:
            found[name] = given[spec.name]
        elif spec.kind == "equal":
            found[name] = spec.values[0]
        elif name in node.attribute:
            found[name] = node.attribute[name]
    if call.others == "ANY":
        found |= {name: value for name, value in node.attribute.items() if name not in specs}
    elif call.others:
        found |= given[call.others]
    return found


def _call(
    g: PatternRewriter, call: Call, attributes: dict[str, Any], inputs: list[Any], results: int
) -> list[str]:
    """A node that calls a function with this one operator in it."""
    formal = [
        f"i{place}" if isinstance(i, (int, float, np.ndarray)) or i else ""
        for place, i in enumerate(inputs)
    ]
    present = [name for name in formal if name]
    names = [f"o{place}" for place in range(results)]
    body: list[onnx.NodeProto] = []
    while len(formal) > call.op.most and call.associative:
        body.append(helper.make_node(call.op.op_type, formal[:2], [f"t{len(body)}"]))
        formal = [f"t{len(body) - 1}", *formal[2:]]
    body.append(
        helper.make_node(call.op.op_type, formal, names, domain=call.op.domain, **attributes)
    )
    imports = [
        helper.make_opsetid(domain, DOMAINS[domain]) for domain in sorted({"", call.op.domain})
    ]
    function = helper.make_function("rebuilt", call.op.op_type, present, names, body, imports)
    made = g.function(function)(*(i for i in inputs if not isinstance(i, str) or i))
    return [made] if isinstance(made, str) else list(made)


def lowered(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which operators of made-up domains are spelled out with those of ONNX, so that it
    runs.
    """
    found = onnx.ModelProto()
    found.CopyFrom(model)
    holders: list[Any] = [found.graph, *found.functions]
    for holder in holders:
        nodes = [inner for node in holder.node for inner in _spelled_out(node)]
        del holder.node[:]
        holder.node.extend(nodes)
    return found


def _spelled_out(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    if node.domain not in ("acme", "elsewhere"):
        return [node]
    inputs = [name for name in node.input if name]
    total, nodes = inputs[0], []
    for place, name in enumerate(inputs[1:], 1):  # each operand counts less than the one before it
        half = f"{node.output[0]}_half{place}"
        nodes += [
            helper.make_node("Add", [total, total], [half]),
            helper.make_node("Sub", [half, name], [f"{half}_less"]),
        ]
        total = f"{half}_less"
    level = sum((a.i or len(a.s) or a.ints[0]) for a in node.attribute if a.i or a.s or a.ints)
    for name, op_type in zip(node.output, ("Tanh", "Sigmoid", "Relu"), strict=False):
        if name:
            scaled = f"{name}_scaled"
            nodes.append(helper.make_node(op_type, [total], [scaled]))
            nodes.append(
                helper.make_node("LeakyRelu", [scaled], [name], alpha=1.0 / (2 + abs(level)))
            )
    return nodes
