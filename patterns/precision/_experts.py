"""Mixtures of experts as `ExpertsScan` writes them: a Scan over the weights of all experts."""

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
"""Operators whose results are not negative."""
_KEEPING_SIGN: Final = operators_with(Trait.MOVES) | {
    *("Add", "Div", "GatherElements", "Max", "Mul", "ReduceMax", "ReduceMean", "ReduceSum"),
    "TopK",
}
"""Operators whose first result is not negative where no operand of floats is."""
_ACTIVATIONS: Final = {"Relu": "relu", "Gelu": "gelu"}
"""What QMoE calls an activation; its Gelu is the one by Tanh, which differs by 2e-4."""
_MAX_PARAMETER: Final = 1024.0
"""Largest parameter of an activation, with which its results stay far from the largest numbers."""
_DEPTH: Final = 12
_RANK: Final = 3
"""Of the weights of all experts."""


class Projection(NamedTuple):
    """A MatMul of rows by the weights of their expert.

    Attributes:
        x: the rows, in the body.
        weights: name of the weights of all experts, of shape (experts, terms, columns).
        bias: name of their biases, of shape (experts, columns); empty where there are none.
        columns: the places of the columns that are read.
    """

    x: str
    weights: str
    bias: str
    columns: Array

    def shape(self, g: GraphView) -> tuple[int, int, int]:
        """The number of experts, and the rows and columns of their weights."""
        shape = g.static_shape(self.weights)
        if shape is None or len(shape) != _RANK:
            raise Declined("the weights of the experts are not matrices")
        return shape[0], shape[1], shape[2]


class Routing(NamedTuple):
    """Which experts compute which tokens.

    Attributes:
        scores: of which a TopK chooses the largest, of shape (tokens, experts).
        experts: the chosen ones, of shape (tokens, choices).
        factors: by which results are multiplied, in the order of the experts.
    """

    scores: str
    experts: str
    factors: str


class Experts(NamedTuple):
    """A mixture of experts.

    Attributes:
        x: the tokens, of shape (tokens, 1, ...).
        routing: of the tokens.
        choices: number of experts of each token.
        inner: one MatMul, or those of a gate and of what it is multiplied by.
        outer: the MatMul after the activation.
        activation: attributes of QMoE.
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
        Declined: it computes something else.
    """
    body = _Body(g, scan)
    scatter = body.node(body.result, "ScatterND")
    places, choices = body.places(scatter)
    scores, chosen = _choice(g, body.chosen(places))
    product, factors = body.weighted(scatter.input[2], places)
    outer = body.projection(product)
    leaves, activation = body.activation(outer.x)
    inner = [body.projection(leaf) for leaf in leaves]
    x = body.rows(inner[0].x, places)
    if x is None or len({projection.x for projection in inner}) > 1:
        raise Declined("the first MatMul of an expert does not read rows of one tensor")
    routing = Routing(scores, chosen, factors)
    experts = Experts(_tokens(g, x, choices), routing, choices, inner, outer, activation)
    _check_sizes(g, scan, experts)
    return experts


def is_nonnegative(g: GraphView, name: str, depth: int = _DEPTH) -> bool:
    """Whether a tensor of floats is known to have no negative number."""
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
        """The node that computes a value, which has one of some operators."""
        node = self._g.node_before(name)
        if not is_op(node, *op_types):
            raise Declined(f"{name!r} of the body is not the result of a {' or '.join(op_types)}")
        return node

    def places(self, scatter: Node) -> tuple[str, int]:
        """The places of the rows of an expert whose results are added to the tokens, and the number
        of rows of a token.
        """
        column = self.node(scatter.input[1], "Unsqueeze")
        if scatter.input[0] != self._state:
            raise Declined("the results of an expert are not added to the state")
        if self._g.get_argument(column, "axes") not in ([1], [-1]):
            raise Declined("the places are not a column")
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

    def chosen(self, places: str) -> str:
        """The matrix of Booleans that tells whether each row has chosen each expert."""
        squeeze = self.node(places, "Squeeze")
        chosen = self.node(squeeze.input[0], "NonZero").input[0]
        if chosen not in self._operands or self._g.get_argument(squeeze, "axes") != [0]:
            raise Declined("the places are not those of the rows that have chosen an expert")
        return self._operands[chosen]

    def weighted(self, name: str, places: str) -> tuple[str, str]:
        """The results of an expert before they are multiplied by their factors, and the factors of
        all rows.
        """
        for product, gathered in _orders(self.node(name, "Mul")):
            factors = self.rows(gathered, places)
            if factors is not None:
                return product, factors
        raise Declined("the result of an expert is not multiplied by a factor of each row")

    def rows(self, name: str, places: str) -> str | None:
        """The tensor whose rows at some places form a matrix, or ``None``."""
        if self._g.info(name).rank != 2:
            return None
        gather = self._g.node_before(_source(self._g, name))
        if not is_op(gather, "Gather") or gather.get_attribute("axis", 0):
            return None
        is_outside = gather.input[0] not in self._operands and not self._g.node_before(
            gather.input[0]
        )
        return gather.input[0] if is_outside and gather.input[1] == places else None

    def projection(self, name: str) -> Projection:
        """The MatMul that gives a matrix, or some columns of it."""
        part = self._g.node_before(name)
        if not is_op(part, "Split", "Slice"):
            return self._linear(name)
        product = self._linear(part.input[0])
        axes = self._g.get_argument(part, "axes" if part.op_type == "Slice" else "axis")
        constants = [self._g.get_computed_constant(operand) for operand in part.input[1:]]
        parts = self._g.evaluate(part, [product.columns[None], *constants])
        if axes not in ([1], [-1], 1, -1) or parts is None:
            raise Declined("the columns of a MatMul are divided in another way")
        return product._replace(columns=parts[part.output.index(name)][0])

    def activation(self, name: str) -> tuple[tuple[str, ...], dict[str, Any]]:
        """The operands of an activation, and its attributes: those of a gate come first."""
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
        """The operands and attributes of x · sigmoid(alpha · x) · (z + beta), where x and z may
        have limits.
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
        """The operand x and alpha of x · sigmoid(alpha · x)."""
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
            product = self._g.node_before(inside)
            for operand, scale in _orders(product) if is_op(product, "Mul") else ():
                alpha = self._g.get_constant_scalar(scale)
                if operand == x and alpha is not None:
                    return x, float(alpha)
        return None

    def _plus(self, name: str) -> tuple[str, float]:
        """The operand of a sum with a constant, and the constant: 0 where there is none."""
        node = self._g.node_before(name)
        for operand, number in _orders(node) if is_op(node, "Add") else ():
            beta = self._g.get_constant_scalar(number)
            if beta is not None:
                return operand, float(beta)
        return name, 0.0

    def _clipped(self, name: str) -> tuple[str, float | None, float | None]:
        """The operand of a Clip, and its limits."""
        node = self._g.node_before(name)
        if not is_op(node, "Clip"):
            return name, None, None
        limits = [self._g.get_constant_scalar(bound) for bound in node.input[1:]]
        low, high, *_ = [*(None if limit is None else float(limit) for limit in limits), None, None]
        return node.input[0], low, high

    def _linear(self, name: str) -> Projection:
        """The MatMul of rows by the weights of an expert that gives a matrix."""
        node, bias = self._g.node_before(name), ""
        for product, summand in _orders(node) if is_op(node, "Add") else ():
            if summand in self._operands:
                node, bias = self._g.node_before(product), summand
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
    """The tensor that has the elements of another one in the same order."""
    node = g.node_before(name)
    while node is not None and not node.domain and node.op_type in _VIEWS:
        name = node.input[0]
        node = g.node_before(name)
    return name


def _choice(g: GraphView, chosen: str) -> tuple[str, str]:
    """The scores and the results of the TopK that chooses experts, from the matrix that tells
    whether rows have chosen experts.
    """
    equal = g.node_before(chosen)
    for operand, name in _orders(equal) if is_op(equal, "Equal") else ():
        numbers = g.get_computed_constant(operand)
        if numbers is not None:
            experts, count = _source(g, name), len(numbers)
            break
    else:
        raise Declined("the choices of the rows are not compared with the numbers of the experts")
    node = g.node_before(experts)
    if not np.array_equal(numbers, np.arange(count)[:, None]):
        raise Declined("the experts are not numbered in order")
    if not is_op(node, "TopK") or experts != node.output[1]:
        raise Declined("the experts are not chosen by a TopK")
    shape = g.try_infer_shape(node.input[0])
    if shape is None or shape[1:] != (count,) or node.get_attribute("axis", -1) not in (-1, 1):
        raise Declined("the TopK does not choose from one score for each token and expert")
    return node.input[0], experts


def _tokens(g: GraphView, rows: str, choices: int) -> str:
    """The tensor with one row for each token, where each of its rows is repeated for each choice.

    Raises:
        Declined: the rows are others.
    """
    if choices == 1:
        return rows
    expand = g.node_before(_source(g, rows))
    if not is_op(expand, "Expand"):
        raise Declined("the rows are not known to be those of tokens")
    before, after = g.try_infer_shape(expand.input[0]), g.try_infer_shape(expand.output[0])
    if before is None or after is None or before[1:2] != (1,):
        raise Declined("the rows are not known to be those of tokens")
    if after != (before[0], choices, *before[2:]):
        raise Declined("the rows are not known to be those of tokens")
    return expand.input[0]


def _check_sizes(g: GraphView, scan: Node, experts: Experts) -> None:
    """Raise `Declined` unless all operands are of the same tokens and experts."""
    (scores, chosen, factors), (*inner, outer) = experts.routing, experts.projections
    tokens, count = g.try_infer_shape(scores) or (0, 0)
    width, hidden = outer.shape(g)[1], len(outer.columns)
    shapes = [
        (chosen, (tokens, experts.choices)),
        (factors, (tokens * experts.choices, 1)),
        (scan.input[0], (tokens, hidden)),
    ]
    x, *sizes = g.try_infer_shape(experts.x) or (None,)
    if x != tokens or math.prod(sizes) != hidden:
        raise Declined("the rows are not known to be one for each token")
    if any(g.try_infer_shape(name) != shape for name, shape in shapes):
        raise Declined("the state, the choices and the factors are not known to be of the tokens")
    if any(each.shape(g)[:2] != (count, hidden) for each in inner) or outer.shape(g)[0] != count:
        raise Declined("the weights are not those of all experts for the same rows")
    if any(len(each.columns) != width or bool(each.bias) != bool(inner[0].bias) for each in inner):
        raise Declined("the gate and its factor have different sizes, or one of them has no bias")
