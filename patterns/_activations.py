"""Activations that onnxruntime's fused operators compute on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from xoptim.match import GraphView, Match, PatternBuilder, Symbol

PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "Softplus": (),
    "Softsign": (),
    "LeakyRelu": ("alpha",),
    "Elu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Selu": ("alpha", "gamma"),
    "Clip": ("min", "max"),
}
"""The attributes of each activation, in the order in which a fused operator takes them."""


def activation(g: PatternBuilder, x: Symbol, names: Sequence[str]) -> Symbol:
    """One of several activations of a result; `parameters_of` returns its attributes."""
    name = g.choice("activation", *names)
    captured = {attribute: g.capture(attribute, optional=True) for attribute in PARAMETERS[name]}
    result: Symbol = getattr(g.op, name)(x, **captured)
    return result


def parameters_of(g: GraphView, m: Match) -> list[float] | None:
    """The attributes of the activation that was matched, ``None`` when one is not a number that is known."""
    node = next(node for node in m.nodes if node.op_type == m.activation)
    values: list[Any] = [
        m[name] if m.get(name) is not None else g.get_attribute(node, name) for name in PARAMETERS[m.activation]
    ]
    return [float(value) for value in values] if all(isinstance(value, (int, float)) for value in values) else None
