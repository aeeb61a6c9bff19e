"""Operators that draw other random numbers in each process, and the outputs that depend on them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import onnx

from xoptim.facts.protos import every_node, proto_reads, standard_domain
from xoptim.operators.registry import Trait, operators_with

_RANDOM: Final = operators_with(Trait.RANDOM)
_TRAINING: Final = 2  # the operand that says whether a Dropout is in training
_MEASURES: Final = operators_with(Trait.MEASURES)
_Functions: TypeAlias = Mapping[tuple[str, str], Sequence[onnx.NodeProto]]


def unseeded_operator(model: onnx.ModelProto) -> str:
    """A random operator without a seed, ``""`` if none.

    Its numbers depend on its position in the graph.
    """
    nodes = (*model.graph.node, *(node for function in model.functions for node in function.node))
    return _unseeded(nodes, {})


def may_drop(model: onnx.ModelProto) -> bool:
    """Whether a Dropout may drop elements at random: one with an operand that says so."""
    nodes = (*model.graph.node, *(node for function in model.functions for node in function.node))
    return any(
        node.op_type == "Dropout" and any(node.input[_TRAINING:]) for node in every_node(nodes)
    )


def random_output(model: onnx.ModelProto) -> str:
    """The first output that depends on a random operator without a seed, with the operator; ``""``
    if none does.

    Two sessions of one process may give such an operator the same numbers, but those of another
    process differ.
    """
    if not unseeded_operator(model):
        return ""
    functions = {(f.domain, f.name): f.node for f in model.functions}
    causes: dict[str, str] = {}
    for node in model.graph.node:
        cause = _unseeded((node,), functions)
        if not cause and (node.op_type not in _MEASURES or standard_domain(node.domain)):
            cause = next((causes[name] for name in proto_reads(node) if name in causes), "")
        if cause:
            causes.update(dict.fromkeys(filter(None, node.output), cause))
    names = (value.name for value in model.graph.output)
    return next((f"output {name!r}: {causes[name]}" for name in names if name in causes), "")


def _unseeded(nodes: Iterable[onnx.NodeProto], functions: _Functions) -> str:
    """A random operator without a seed among some nodes, in their subgraphs and in the functions
    that they call; ``""`` if none.
    """
    entered: set[tuple[str, str]] = set()
    pending = list(every_node(nodes))
    while pending:
        node = pending.pop(0)
        key = node.domain, node.op_type
        if key in functions and key not in entered:
            entered.add(key)
            pending += every_node(functions[key])
        elif key not in functions and _draws(node):
            return f"{node.op_type} without a seed"
    return ""


def _draws(node: onnx.NodeProto) -> bool:
    """Whether a node is a random operator without a seed."""
    is_random = node.op_type in _RANDOM and not standard_domain(node.domain)
    return is_random and all(attribute.name != "seed" for attribute in node.attribute)
