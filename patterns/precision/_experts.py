"""Mixtures of experts (MoE) as `ExpertsScan` writes them: a Scan over the experts' weights."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from xoptim.facts.errors import Declined
from xoptim.match import GraphView, Node
from xoptim.operators.registry import Trait, operators_with

from .._folding import Array
from .._nodes import is_op
from .._shapes import uniform_value

_CONTRIB: Final = "com.microsoft"
_VIEWS: Final = operators_with(Trait.VIEW)
_NONNEGATIVE: Final = frozenset(
    ("Abs", "Exp", "HardSigmoid", "Relu", "Sigmoid", "Softmax", "Softplus", "Sqrt")
)
"""Operators whose results are nonnegative."""
_KEEPING_SIGN: Final = operators_with(Trait.MOVES) | {
    *("Add", "Div", "GatherElements", "Max", "Mul", "ReduceMax", "ReduceMean", "ReduceSum"),
    "TopK",
}
"""Operators whose first result is nonnegative if all float operands are."""
_ACTIVATIONS: Final = {"Relu": "relu", "Gelu": "gelu"}
"""The activation types of QMoE. Its Gelu is the Tanh approximation, which differs by 2e-4."""
_MAX_PARAMETER: Final = 1024.0
"""Largest parameter of an activation, so that results stay far from overflow."""
_DEPTH: Final = 12
"""Maximum number of nodes in a row that are followed to see that a tensor is nonnegative."""
_RANK: Final = 3
"""Rank of the stacked weights."""


class Projection(NamedTuple):
    """A MatMul of rows by the weights of their expert.

    Attributes:
        x: the rows, in the body.
        weights: name of the weights of all experts, of shape (experts, terms, columns).
        bias: name of their biases, of shape (experts, columns); empty if there are none.
        columns: the indices of the columns that are read.
    """

    x: str
    weights: str
    bias: str
    columns: Array

    def shape(self, g: GraphView) -> tuple[int, int, int]:
        """The shape of the weights: (experts, rows, columns)."""
        shape = g.static_shape(self.weights)
        if shape is None or len(shape) != _RANK:
            raise Declined("the weights of the experts are not matrices")
        return shape[0], shape[1], shape[2]


class Routing(NamedTuple):
    """The routing of tokens to experts.

    Attributes:
        scores: the router scores that a TopK reads, of shape (tokens, experts).
        experts: the chosen experts, of shape (tokens, choices).
        factors: the weights of the experts' results, of shape (tokens · choices, 1).
    """

    scores: str
    experts: str
    factors: str


class Experts(NamedTuple):
    """A mixture of experts.

    Attributes:
        x: the tokens, of shape (tokens, 1, ...).
        routing: the routing of the tokens.
        choices: number of experts of each token (top-k).
        inner: the MatMul before the activation, or both the gate and the up projection.
        outer: the MatMul after the activation (down projection).
        activation: the attributes of QMoE for the activation.
    """

    x: str
    routing: Routing
    choices: int
    inner: Sequence[Projection]
    outer: Projection
    activation: dict[str, Any]

    @property
    def projections(self) -> list[Projection]:
        """All MatMuls, in order."""
        return [*self.inner, self.outer]


def experts_of(g: GraphView, scan: Node) -> Experts:
    """The mixture of experts that a Scan computes.

    Raises:
        Declined: when the Scan computes something else.
    """
    body = _Body(g, scan)
    scatter = body.node(body.result, "ScatterND")
    indices, choices = body.row_indices(scatter)
    scores, selection = _choice(g, body.choice_mask(indices))
    product, factors = body.weighted(scatter.input[2], indices)
    outer = body.projection(product)
    leaves, activation = body.activation(outer.x)
    inner = [body.projection(leaf) for leaf in leaves]
    x = body.rows(inner[0].x, indices)
    if x is None or len({projection.x for projection in inner}) > 1:
        raise Declined("the first MatMul of an expert does not read rows of one tensor")
    routing = Routing(scores, selection, factors)
    experts = Experts(_tokens(g, x, choices), routing, choices, inner, outer, activation)
    _check_sizes(g, scan, experts)
    return experts


def is_nonnegative(g: GraphView, name: str, depth: int = _DEPTH) -> bool:
    """Whether a float tensor is known to have no negative elements."""
    array = g.get_computed_constant(name)
    if array is not None:
        return bool((array >= 0).all())
    node = g.node_before(name)
    if node is None or not depth or name != node.output[0]:
        return False
    if node.op_type == "FusedGemm" and node.domain == _CONTRIB:
        return node.get_attribute("activation", "") in _NONNEGATIVE
    if node.domain or node.op_type in _NONNEGATIVE:
        return not node.domain
    count = None if node.op_type in ("Add", "Div", "Max", "Mul") else 1
    return node.op_type in _KEEPING_SIGN and all(
        is_nonnegative(g, operand, depth - 1) for operand in node.input[:count]
    )


class _Body:
    """The subgraph of a Scan.

    Args:
        g: the graph of the Scan.
        scan: the node.
    """

    def __init__(self, g: GraphView, scan: Node) -> None:
        body = scan.bodies["body"]
        extra = [name for name in scan.attribute if name not in ("body", "num_scan_inputs")]
        is_sum = len(scan.output) == 1 and scan.attribute["num_scan_inputs"] + 1 == len(scan.input)
        if extra or not is_sum or uniform_value(g, scan.input[0]) != 0:
            raise Declined("the Scan has scan outputs, other axes, or a state that is not 0")
        self._outside, self._g = g, g.inside(body)
        self._operands = dict(zip(body.inputs, scan.input, strict=True))
        self._state, self.result = body.inputs[0], body.outputs[0]

    def node(self, name: str, *op_types: str) -> Node:
        """The producer of a value, which must be one of these operators."""
        node = self._g.node_before(name)
        if not is_op(node, *op_types):
            raise Declined(f"{name!r} of the body is not the result of a {' or '.join(op_types)}")
        return node

    def row_indices(self, scatter: Node) -> tuple[str, int]:
        """The indices of an expert's rows, and the number of rows of a token."""
        column = self.node(scatter.input[1], "Unsqueeze")
        if scatter.input[0] != self._state:
            raise Declined("the results of an expert are not added to the state")
        if self._g.get_argument(column, "axes") not in ([1], [-1]):
            raise Declined("the row indices are not a column")
        tokens, reduction = self._g.node_before(column.input[0]), scatter.get_attribute("reduction")
        if not is_op(tokens, "Div"):  # each token has one expert
            if reduction not in ("add", "none"):
                raise Declined("the results of an expert are not added to the state")
            return column.input[0], 1
        choices = self._g.get_constant_scalar(tokens.input[1])
        if not isinstance(choices, int) or choices < 1:
            raise Declined("the number of rows of a token is not constant")
        if reduction != "add":
            raise Declined("the results of an expert are not added to the state")
        return tokens.input[0], choices

    def choice_mask(self, indices: str) -> str:
        """The Boolean matrix (experts, rows) of the choices of all rows."""
        squeeze = self.node(indices, "Squeeze")
        mask = self.node(squeeze.input[0], "NonZero").input[0]
        if mask not in self._operands or self._g.get_argument(squeeze, "axes") != [0]:
            raise Declined("the indices are not those of the rows that have chosen an expert")
        return self._operands[mask]

    def weighted(self, name: str, indices: str) -> tuple[str, str]:
        """The results of an expert before they are multiplied, and the factors of all rows."""
        for result, factor in _orders(self.node(name, "Mul")):
            factors = self.rows(factor, indices)
            if factors is not None:
                return result, factors
        raise Declined("the result of an expert is not multiplied by a factor of each row")

    def rows(self, name: str, indices: str) -> str | None:
        """The tensor from which a Gather takes the rows of a matrix at ``indices``, or ``None``."""
        if self._g.info(name).rank != 2:
            return None
        gather = self._g.node_before(_source(self._g, name))
        if not is_op(gather, "Gather") or gather.get_attribute("axis", 0):
            return None
        is_outside = gather.input[0] not in self._operands and not self._g.node_before(
            gather.input[0]
        )
        return gather.input[0] if is_outside and gather.input[1] == indices else None

    def projection(self, name: str) -> Projection:
        """The MatMul that computes a matrix, or some columns of it."""
        selection = self._g.node_before(name)
        if not is_op(selection, "Split", "Slice"):
            return self._linear(name)
        projection = self._linear(selection.input[0])
        axes = self._g.get_argument(selection, "axes" if selection.op_type == "Slice" else "axis")
        constants = [self._g.get_computed_constant(operand) for operand in selection.input[1:]]
        columns = self._g.evaluate(selection, [projection.columns[None], *constants])
        if axes not in ([1], [-1], 1, -1) or columns is None:
            raise Declined("a MatMul is not split or sliced by constants along its columns")
        return projection._replace(columns=columns[selection.output.index(name)][0])

    def activation(self, name: str) -> tuple[tuple[str, ...], dict[str, Any]]:
        """The operands of an activation, the gate first, and the attributes of QMoE for it."""
        node = self._g.node_before(name)
        for gate, factor in _orders(node) if is_op(node, "Mul") else ():
            swiglu = self._swiglu(gate, factor)
            if swiglu is not None:
                return swiglu
        silu = self._silu(name)
        if silu is not None and silu[1] == 1:
            return silu[:1], {"activation_type": "silu"}
        if node is not None and node.domain in ("", _CONTRIB) and node.op_type in _ACTIVATIONS:
            return (node.input[0],), {"activation_type": _ACTIVATIONS[node.op_type]}
        return (name,), {"activation_type": "identity"}

    def _swiglu(self, gate: str, factor: str) -> tuple[tuple[str, ...], dict[str, Any]] | None:
        """The operands and the attributes of x · sigmoid(alpha · x) · (z + beta), or ``None``.

        x and z may be clipped.
        """
        silu = self._silu(gate)
        if silu is None:
            return None
        factor, beta = self._plus(factor)
        (x, low, high), (z, *limits) = self._clipped(silu[0]), self._clipped(factor)
        if low is not None or limits != [None if high is None else -high, high]:
            return None
        parameters = {"activation_alpha": silu[1], "activation_beta": beta}
        if high is not None:
            parameters["swiglu_limit"] = high
        if any(abs(number) > _MAX_PARAMETER for number in parameters.values()):
            return None
        if silu[1] <= 0 or (high is not None and high <= 0):
            return None
        return (x, z), {"activation_type": "swiglu", "swiglu_fusion": 1, **parameters}

    def _silu(self, name: str) -> tuple[str, float] | None:
        """The operand x and the factor alpha of x · sigmoid(alpha · x), or ``None``."""
        node = self._g.node_before(name)
        if node is not None and (node.domain, node.op_type) == (_CONTRIB, "QuickGelu"):
            return node.input[0], node.get_attribute("alpha", 1.702)
        if not is_op(node, "Mul"):
            return None
        for x, factor in _orders(node):
            sigmoid = self._g.node_before(factor)
            inside = sigmoid.input[0] if is_op(sigmoid, "Sigmoid") else ""
            if inside == x:
                return x, 1.0
            multiplied = self._g.node_before(inside)
            for operand, scale in _orders(multiplied) if is_op(multiplied, "Mul") else ():
                alpha = self._g.get_constant_scalar(scale)
                if operand == x and alpha is not None:
                    return x, float(alpha)
        return None

    def _plus(self, name: str) -> tuple[str, float]:
        """The operand of an Add of a constant, and the constant; without an Add, ``name`` and 0."""
        node = self._g.node_before(name)
        for operand, number in _orders(node) if is_op(node, "Add") else ():
            beta = self._g.get_constant_scalar(number)
            if beta is not None:
                return operand, float(beta)
        return name, 0.0

    def _clipped(self, name: str) -> tuple[str, float | None, float | None]:
        """The operand of a Clip, and its bounds; ``name`` and no bounds without a Clip of constant
        bounds.
        """
        node = self._g.node_before(name)
        if not is_op(node, "Clip"):
            return name, None, None
        bounds = node.input[1:]
        limits = [self._g.get_constant_scalar(bound) for bound in bounds]
        if any(bound and limit is None for bound, limit in zip(bounds, limits, strict=True)):
            return name, None, None
        low, high, *_ = [*(None if limit is None else float(limit) for limit in limits), None, None]
        return node.input[0], low, high

    def _linear(self, name: str) -> Projection:
        """The MatMul of rows by the weights of an expert that computes a matrix."""
        node, bias = self._g.node_before(name), ""
        for operand, summand in _orders(node) if is_op(node, "Add") else ():
            if summand in self._operands:
                node, bias = self._g.node_before(operand), summand
                break
        if not is_op(node, "Gemm", "MatMul") or (bias and node.op_type == "Gemm"):
            raise Declined(f"{name!r} of the body is not the result of a MatMul")
        if any(node.get_attribute(key, 0) for key in ("transA", "transB")):
            raise Declined("an operand of a Gemm is transposed")
        if any(node.get_attribute(key, 1.0) != 1 for key in ("alpha", "beta")):
            raise Declined("a Gemm has factors")
        bias = node.input[2] if len(node.input) > 2 else bias
        if node.input[1] not in self._operands or (bias and bias not in self._operands):
            raise Declined("the weights of a MatMul are not those of an expert")
        weights, bias = (self._operands.get(operand, "") for operand in (node.input[1], bias))
        if not all(self._outside.is_constant(stack) for stack in (weights, bias) if stack):
            raise Declined("the weights of the experts are not constant")
        projection = Projection(node.input[0], weights, bias, np.arange(0))
        width = projection.shape(self._outside)[2]
        return projection._replace(columns=np.arange(width))


def _orders(node: Node) -> Iterator[tuple[str, str]]:
    """The two operands of a node in both orders."""
    first, second = node.input
    yield first, second
    yield second, first


def _source(g: GraphView, name: str) -> str:
    """The tensor from which nodes that only change the shape compute ``name``."""
    node = g.node_before(name)
    while node is not None and not node.domain and node.op_type in _VIEWS:
        name = node.input[0]
        node = g.node_before(name)
    return name


def _choice(g: GraphView, mask: str) -> tuple[str, str]:
    """The scores and the indices of the TopK that chooses experts.

    ``mask`` is the Boolean matrix (experts, rows) of the choices.
    """
    equal = g.node_before(mask)
    for operand, name in _orders(equal) if is_op(equal, "Equal") else ():
        ids = g.get_computed_constant(operand)
        if ids is not None:
            experts, count = _source(g, name), len(ids)
            break
    else:
        raise Declined("the choices of the rows are not compared with the numbers of the experts")
    node = g.node_before(experts)
    if not np.array_equal(ids, np.arange(count)[:, None]):
        raise Declined("the experts are not numbered in order")
    if not is_op(node, "TopK") or experts != node.output[1]:
        raise Declined("the experts are not chosen by a TopK")
    shape = g.try_infer_shape(node.input[0])
    if shape is None or shape[1:] != (count,) or node.get_attribute("axis", -1) not in (-1, 1):
        raise Declined("the TopK does not choose from one score for each token and expert")
    return node.input[0], experts


def _tokens(g: GraphView, rows: str, choices: int) -> str:
    """The tensor with one row for each token.

    In ``rows``, an Expand repeats each token for each of its choices.

    Raises:
        Declined: when the rows are not repeated in this way.
    """
    if choices == 1:
        return rows
    expand = g.node_before(_source(g, rows))
    if not is_op(expand, "Expand"):
        raise Declined("the rows are not known to be those of tokens")
    tokens, repeated = g.try_infer_shape(expand.input[0]), g.try_infer_shape(expand.output[0])
    if tokens is None or repeated is None or tokens[1:2] != (1,):
        raise Declined("the rows are not known to be those of tokens")
    if repeated != (tokens[0], choices, *tokens[2:]):
        raise Declined("the rows are not known to be those of tokens")
    return expand.input[0]


def _check_sizes(g: GraphView, scan: Node, experts: Experts) -> None:
    """Raise `Declined` unless all operands belong to the same tokens and experts."""
    (scores, selection, factors), (*inner, outer) = experts.routing, experts.projections
    tokens, count = g.try_infer_shape(scores) or (0, 0)
    width, hidden = outer.shape(g)[1], len(outer.columns)
    shapes = [
        (selection, (tokens, experts.choices)),
        (factors, (tokens * experts.choices, 1)),
        (scan.input[0], (tokens, hidden)),
    ]
    x, *sizes = g.try_infer_shape(experts.x) or (None,)
    if x != tokens or math.prod(sizes) != hidden:
        raise Declined("the rows are not known to be one for each token")
    if any(g.try_infer_shape(name) != shape for name, shape in shapes):
        raise Declined("the shapes of state, choices and factors may not match the tokens")
    if (
        any(projection.shape(g)[:2] != (count, hidden) for projection in inner)
        or outer.shape(g)[0] != count
    ):
        raise Declined("the weights are not those of all experts for the same rows")
    if any(
        len(projection.columns) != width or bool(projection.bias) != bool(inner[0].bias)
        for projection in inner
    ):
        raise Declined("the gate and its factor have different sizes, or one of them has no bias")
