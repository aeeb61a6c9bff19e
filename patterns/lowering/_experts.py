"""A mixture of experts (MoE) as a Scan over the experts, each of which computes its own tokens."""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper

from xoptim.match import PatternRewriter

_CUBIC: Final = 0.044715
"""The factor of x³ in the approximation of Gelu by Tanh."""
_FAR: Final = 2**31 - 1
"""The end of a Slice that reads up to the last column."""


class Swiglu(NamedTuple):
    """x · sigmoid(alpha · x) · (z + beta), with x in the even and z in the odd columns.

    x is clipped to at most ``limit``, and z to the range from -``limit`` to ``limit``. The limit
    may be infinite.
    """

    alpha: float
    beta: float
    limit: float


class Layers(NamedTuple):
    """The weights (experts, columns, rows) and biases (experts, columns) of both MatMuls.

    An omitted bias is empty. The activation is between the MatMuls.
    """

    first: str
    first_bias: str
    second: str
    second_bias: str
    activation: str | Swiglu


def routing(
    g: PatternRewriter, logits: str, weights: str, count: int, total: int, *, is_normalized: bool
) -> str:
    """The factor of each expert for each token, of shape (experts, tokens).

    The factor is 0 if the token does not choose the expert.

    Args:
        g: the rewriter that makes the nodes.
        logits: the router logits, of shape (tokens, experts).
        weights: the weights of the experts' results, of shape (tokens, experts); empty for the
            softmax of the logits.
        count: number of experts of each token.
        total: number of experts.
        is_normalized: whether the weights of a token are divided by their sum.
    """
    # If logits are equal, kernels on CPUs choose the last experts, but TopK chooses the first ones.
    last = total - 1
    backwards = g.op.Gather(logits, np.arange(last, -1, -1), axis=1)
    _, places = g.op.TopK(backwards, np.array([count], np.int64), axis=-1, outputs=2)
    experts = g.op.Sub(np.array(last), places)
    chosen = g.op.GatherElements(weights or g.op.Softmax(logits, axis=-1), experts, axis=1)
    if is_normalized:
        chosen = g.op.Div(chosen, g.op.ReduceSum(chosen, axes=[1], keepdims=1))
    zeros = _zeros(g, logits)
    factors = g.op.ScatterElements(zeros, experts, chosen, axis=1)
    return g.op.Transpose(factors, perm=[1, 0])


def mixture(g: PatternRewriter, tokens: str, factors: str, layers: Layers, width: int) -> str:
    """The sum of the experts' results for all tokens, of shape (tokens, width)."""
    stacks = [name for name in layers[:4] if name]
    graph = _expert(_Body(g), tokens, layers, width)
    return g.op.Scan(
        _zeros(g, tokens), *stacks, factors, num_scan_inputs=len(stacks) + 1, body=graph
    )


def _zeros(g: PatternRewriter, like: str) -> str:
    zero = helper.make_tensor("", TensorProto.FLOAT, [1], [0])
    return g.op.ConstantOfShape(g.op.Shape(like), value=zero)


@dataclass
class _Body:
    """The subgraph for one expert.

    Attributes:
        g: the rewriter that makes names and constants.
        nodes: the nodes of the subgraph.
    """

    g: PatternRewriter
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def op(self, op_type: str, *operands: str, **attributes: Any) -> str:
        """Write a node, and return the name of its result."""
        result = self.g.unique_name(f"expert_{op_type.lower()}")
        self.nodes.append(helper.make_node(op_type, operands, [result], **attributes))
        return result

    def integers(self, *numbers: int) -> str:
        """A constant list of integers."""
        return self.g.make_initializer("", np.array(numbers, np.int64))

    def number(self, value: float) -> str:
        """A constant float."""
        return self.g.make_initializer("", np.array(value, np.float32))


def _expert(body: _Body, tokens: str, layers: Layers, width: int) -> onnx.GraphProto:
    """The subgraph that adds the results of one expert to the sum of the experts before it."""
    g = body.g
    state, factors = g.unique_name("expert_sum"), g.unique_name("expert_factors")
    parts = [g.unique_name("expert_weights") if name else "" for name in layers[:4]]
    is_chosen = body.op("Greater", factors, body.number(0.0))
    rows = body.op("Squeeze", body.op("NonZero", is_chosen), body.integers(0))
    x = body.op("Gather", tokens, rows, axis=0)
    hidden = _linear(body, x, *parts[:2])
    active = _activated(body, hidden, layers.activation)
    y = _linear(body, active, *parts[2:])
    factor = body.op("Unsqueeze", body.op("Gather", factors, rows, axis=0), body.integers(1))
    places = body.op("Unsqueeze", rows, body.integers(1))
    total = body.op("ScatterND", state, places, body.op("Mul", y, factor), reduction="add")
    inputs = [helper.make_tensor_value_info(state, TensorProto.FLOAT, [None, width])]
    for name, part in zip(layers[:4], parts, strict=True):
        shape = g.static_shape(name) if name else None
        if shape is not None:
            inputs.append(helper.make_tensor_value_info(part, TensorProto.FLOAT, shape[1:]))
    inputs.append(helper.make_tensor_value_info(factors, TensorProto.FLOAT, [None]))
    outputs = [helper.make_tensor_value_info(total, TensorProto.FLOAT, [None, width])]
    return helper.make_graph(body.nodes, g.unique_name("expert"), inputs, outputs)


def _linear(body: _Body, x: str, weights: str, bias: str) -> str:
    operands = [x, weights, bias] if bias else [x, weights]
    return body.op("Gemm", *operands, transB=1)


def _activated(body: _Body, x: str, activation: str | Swiglu) -> str:
    if isinstance(activation, Swiglu):
        return _swiglu(body, x, activation)
    if activation == "relu":
        return body.op("Relu", x)
    if activation == "silu":
        return body.op("Mul", x, body.op("Sigmoid", x))
    return _gelu(body, x) if activation == "gelu" else x


def _gelu(body: _Body, x: str) -> str:
    """Gelu by Tanh: x / 2 · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))."""
    cube = body.op("Mul", body.op("Mul", x, x), x)
    inner = body.op("Add", x, body.op("Mul", cube, body.number(_CUBIC)))
    tanh = body.op("Tanh", body.op("Mul", inner, body.number(np.sqrt(2 / np.pi))))
    half = body.op("Mul", x, body.number(0.5))
    return body.op("Mul", half, body.op("Add", tanh, body.number(1.0)))


def _swiglu(body: _Body, x: str, form: Swiglu) -> str:
    gate, linear = (
        body.op("Slice", x, *(body.integers(number) for number in (start, _FAR, 1, 2)))
        for start in (0, 1)
    )
    if np.isfinite(form.limit):
        limit = body.number(form.limit)
        gate = body.op("Clip", gate, "", limit)
        linear = body.op("Clip", linear, body.number(-form.limit), limit)
    scaled = gate if form.alpha == 1 else body.op("Mul", gate, body.number(form.alpha))
    shifted = linear if form.beta == 0 else body.op("Add", linear, body.number(form.beta))
    return body.op("Mul", body.op("Mul", gate, body.op("Sigmoid", scaled)), shifted)
