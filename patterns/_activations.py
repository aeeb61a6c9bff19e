"""Contrib operators that fuse an activation: FusedConv and FusedGemm."""

from typing import Any, ClassVar

import numpy as np
from onnx import TensorProto

from xoptim.match import (
    EasyPatternOptimization,
    GraphView,
    Match,
    Node,
    PatternBuilder,
    PatternRewriter,
    runs,
)
from xoptim.match.trace import Optional, Symbol
from xoptim.operators.activations import PARAMETERS as PARAMETERS

from ._nodes import is_op


class _FusedActivation(EasyPatternOptimization):
    """An `operator` with two or three operands and one of the `activations`, as one operator.

    Refuses when:
    1. a parameter of the activation is not known.
    2. the provider has no kernel for the type.
    """

    phase = "target"
    priority = 5
    min_opset = 7
    providers = ("cpu",)
    produces = ("com.microsoft",)
    tags = ("onnxruntime",)
    operator: ClassVar[str]
    activations: ClassVar[tuple[str, ...]]
    derives = ("written",)

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, c: Optional) -> Symbol:
        name = g.choice("activation", *self.activations)
        captured = {
            attribute: g.capture(attribute, optional=True) for attribute in PARAMETERS[name]
        }
        result: Symbol = getattr(g.op, name)(
            getattr(g.op, self.operator)(a, b, c, attributes=g.capture("attributes")), **captured
        )
        return result

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        first, second = m.nodes
        names = PARAMETERS[m.activation]
        values = [
            m[name] if m.get(name) is not None else _default(g, second, name) for name in names
        ]
        if not all(isinstance(value, (int, float)) for value in values):  # (1)
            return self.none(second, msg="a parameter of the activation is unknown")
        if not runs(g, f"Fused{self.operator}", m.a, "com.microsoft"):  # (2)
            return self.none(first, msg="the fused operator has no kernel for this element type")
        parameters = self.parameters(dict(zip(names, map(float, values), strict=True)))
        return m.derive(written={**m.attributes, "activation": m.activation, **parameters})

    def parameters(self, values: dict[str, float]) -> dict[str, Any]:
        """The parameters of an activation as attributes of the fused operator."""
        raise NotImplementedError

    def apply_pattern(
        self, g: PatternRewriter, a: str, b: str, c: str, written: dict[str, Any]
    ) -> str:
        return str(
            getattr(g.op, f"Fused{self.operator}")(a, b, c, domain="com.microsoft", **written)
        )


def _default(g: GraphView, activation: Node, name: str) -> Any:
    """The attribute of an activation for a parameter; float32's limit where a Clip has no bound."""
    is_clip = (
        is_op(activation, "Clip") and g.try_infer_type(activation.input[0]) == TensorProto.FLOAT
    )
    if is_clip and g.get_argument(activation, name) is None and name not in _bounds(activation):
        limit = float(np.finfo(np.float32).max)
        return limit if name == "max" else -limit
    return g.get_attribute(activation, name)


def _bounds(clip: Node) -> list[str]:
    """The names of the bounds of a Clip that are operands."""
    return [
        name for name, operand in zip(PARAMETERS["Clip"], clip.input[1:], strict=False) if operand
    ]
