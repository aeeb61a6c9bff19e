import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from onnx import TensorProto

from xoptim.match import (
    Example,
    GraphView,
    MatchResult,
    Node,
    PatternOptimization,
    PatternRewriter,
    runs,
)

from .._nodes import axis_of, is_op, size_along
from .._shapes import may_be_empty
from ._bias import require_moderate
from ._mask import ABSORBING, magnitude_of, read_mask

_MAX_ELEMENTS: Final = 1 << 16
"""Maximum elements of a weight. With larger weights, the operator was measured to be slower."""
_MAX_LENGTH: Final = 128
"""Maximum length of a sequence. With longer sequences, the operator was measured to be slower."""
_MAX_BATCH: Final = 2
"""Maximum number of sequences for which the operator is as fast as the standard Attention."""
_ATTRIBUTES: Final = {"num_heads", "q_num_heads", "kv_num_heads", "scale"}
_RANK: Final = 4
"""Number of axes of a mask: batch, heads, queries, keys."""
_MASK: Final = {"Attention": 3, "MultiHeadAttention": 5}
"""Index of the operand that is added to the scores."""


class _Linear(NamedTuple):
    """A MatMul with a constant weight, and the constant bias that is added to it.

    Attributes:
        nodes: the MatMul, the Add of the bias, and the Split of the result.
        x: the first operand of the MatMul.
        weight: the weight, a matrix.
        bias: the bias, a vector; ``None`` without one.
    """

    nodes: tuple[Node, ...]
    x: str
    weight: np.ndarray
    bias: np.ndarray | None


class PackedAttentionPattern(PatternOptimization):
    """Attention(x @ wq + bq, x @ wk + bk, x @ wv + bv, mask) → com.microsoft.Attention(x, w, b,
    mask)

    What: one operator computes the three linear layers and the attention; the weights are
    concatenated. The same for com.microsoft.MultiHeadAttention.
    Why: on one thread of onnxruntime's CPU provider, the operator takes 0.82 to 0.96 of the time of
    MultiHeadAttention for 1 to 128 positions of 256 features, but 1.05 for 1024. It takes 0.88 to
    1.00 of the time of Attention for one or two sequences, but 1.00 to 1.24 for 8 to 64.
    Refuses when:
    1. queries, keys and values are not linear layers of the same tensor with constant weights of
       the same shape, or another node reads them.
    2. a weight has more than 65,536 elements, a sequence may have more than 128 positions, or the
       batch size of the standard Attention may exceed 2. Or a bias is large: the kernel starts the
       sums of x @ w with it, so they lose digits.
    3. the operator has a KV cache, several results, an attribute that com.microsoft.Attention
       lacks, or heads of different sizes. Or the standard Attention has a scale of 0, for which
       com.microsoft.Attention uses its default.
    4. a dimension may be 0, or a shape is unknown.
    5. the mask does not have four axes, or its dimensions or type differ from the scores.
    6. the mask of the standard Attention may have numbers of -1e30 or less, and lacks the factor
       0.99999994 of the pattern `Attention`. The kernels then differ for fully masked queries.
    7. the type is not float32, or the provider has no kernel.
    """

    phase = "target"
    priority = 8  # before the patterns that remove biases of keys and values
    exactness = "rounding"
    min_opset = 7
    produces = ("com.microsoft",)
    providers = ("cpu",)
    tags = ("onnxruntime",)
    anchors = ("Attention", "com.microsoft::MultiHeadAttention")

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        layers = [_operand_layer(g, name, node.input[:3]) for name in node.input[:3]]
        projections = [layer for layer in layers if layer is not None]
        shapes = {(layer.x, layer.weight.shape) for layer in projections}
        if len(projections) < 3 or len(shapes) > 1:  # (1)
            return self.none(
                node, msg="queries, keys and values are not linear layers of one tensor"
            )
        x, weight = projections[0].x, projections[0].weight
        if weight.size > _MAX_ELEMENTS:  # (2)
            return self.none(node, msg="the weights are large, for which the operator is slower")
        index = _MASK[node.op_type]
        mask = node.input[index] if len(node.input) > index else ""
        heads = _heads(node)
        extra_operands = [name for name in node.input[3:] if name not in ("", mask)]
        # (3)
        if heads is None or weight.shape[1] % heads or extra_operands or any(node.output[1:]):
            return self.none(
                node, msg="com.microsoft.Attention lacks an operand, output or attribute"
            )
        shape = g.try_infer_shape(x)
        if shape is None or len(shape) != 3:  # (4)
            return self.none(node, msg="the shape is unknown")
        if reason := may_be_empty(g, shape):  # (4)
            return self.none(node, msg=reason)
        if not _is_small(shape, is_standard=not node.domain):  # (2)
            return self.none(
                node, msg="there may be long or many sequences, for which the operator is slower"
            )
        scores = (shape[0], heads, shape[1], shape[1])
        has_type_of_scores = not mask or g.try_infer_type(mask) == g.try_infer_type(x)
        # (5)
        if not has_type_of_scores or (mask and not _fits(g.try_infer_shape(mask), scores)):
            return self.none(node, msg="the mask does not have the dimensions or type of scores")
        original_mask = read_mask(g, mask)
        # (6)
        is_low = mask and not node.domain and not magnitude_of(g, mask) < -ABSORBING
        if is_low and original_mask is None:
            return self.none(
                node, msg="the mask may hold -1e30 or less, for which the kernels differ"
            )
        # (7)
        if g.try_infer_type(x) != TensorProto.FLOAT or not runs(g, "Attention", x, "com.microsoft"):
            return self.none(node, msg="no kernel for this element type")
        nodes = list(dict.fromkeys(step for layer in projections for step in layer.nodes))
        scale = node.get_attribute("scale", None)
        attributes = {"num_heads": heads} | ({} if scale is None else {"scale": scale})
        return MatchResult(
            self, [*nodes, node], partial(_write, projections, original_mask or mask, attributes)
        )

    _layer = "p = MatMul(x, u) q = Add(p, b) k = MatMul(x, v) l = MatMul(x, w) r = Add(l, c)"
    _weights = (
        "float[2,2] u = {1, 2, 3, 4}, float[2,2] v = {5, 6, 7, 8}, float[2,2] w = {9, 1, 2, 3}"
    )
    _after = (
        "<float[2,6] t = {1, 2, 5, 6, 9, 1, 3, 4, 7, 8, 2, 3}, float[6] d = {1, 2, 0, 0, 3, 4}> "
    )
    examples = (
        Example(
            f"agraph (float[b,3,2] x) => (float[b,3,2] y) <{_weights}, float[2] b = {{1, 2}}, "
            f"float[2] c = {{3, 4}}> {{ {_layer} "
            "y = com.microsoft.MultiHeadAttention <num_heads = 2, scale = 0.5> (q, k, r) }",
            f"{_after} {{ y = com.microsoft.Attention <num_heads = 2, scale = 0.5> (x, t, d) }}",
        ),
        Example(
            "agraph (float[2,3,2] x, bool[2,1,3,3] m) => (float[2,3,2] y) "
            f"<{_weights}, float[2] b = {{1, 2}}, float[2] c = {{3, 4}}, float low = {{-10000}}> "
            f"{{ n = Cast <to = 1> (m) o = Mul(n, low) {_layer} "
            "y = Attention <q_num_heads = 1, kv_num_heads = 1> (q, k, r, o) }",
            "<float[2,6] t = {1, 2, 5, 6, 9, 1, 3, 4, 7, 8, 2, 3}, "
            "float[6] d = {1, 2, 0, 0, 3, 4}, float low = {-10000}> { "
            "n = Cast <to = 1> (m) o = Mul(n, low) "
            "y = com.microsoft.Attention <num_heads = 1> (x, t, d, , , o) }",
            opset=23,
        ),
    )


def _operand_layer(g: GraphView, name: str, operands: Sequence[str]) -> _Linear | None:
    """The linear layer that computes an operand of an attention, and that no other node reads.

    One layer may compute all three ``operands``, which a Split separates. Its weight and bias are
    then cut as well.
    """
    node = g.node_before(name)
    if not is_op(node, "Split") or not g.is_exclusive(name):
        return _layer(g, name)
    dims = [size_along(g, part, 2) for part in node.output]
    sizes = [size for size in dims if isinstance(size, int)]
    splits_features = axis_of(g, node) == 2 and len(sizes) == len(dims)
    layer, index = _layer(g, node.input[0]), node.output.index(name)
    if layer is None or not splits_features or set(node.output) != set(operands):
        return None
    start = sum(sizes[:index])
    columns = slice(start, start + sizes[index])
    bias = None if layer.bias is None else layer.bias[columns]
    return _Linear((*layer.nodes, node), layer.x, layer.weight[:, columns], bias)


def _layer(g: GraphView, name: str) -> _Linear | None:
    """The linear layer that computes a tensor, if the tensor has a single consumer."""
    nodes: list[Node] = []
    constants: list[str] = []
    bias: np.ndarray | None = None
    node = g.node_before(name)
    if is_op(node, "Add") and g.is_exclusive(name):
        constants = [operand for operand in node.input if g.is_constant(operand)]
        results = [operand for operand in node.input if operand not in constants]
        if len(constants) != 1 or len(results) != 1:
            return None
        bias = g.get_computed_constant(constants[0])
        nodes, name = [node], results[0]
        node = g.node_before(name)
    if not is_op(node, "MatMul") or not g.is_exclusive(name):
        return None
    weight = g.get_computed_constant(node.input[1])
    if weight is None or weight.ndim != 2:
        return None
    if nodes:
        if bias is None or bias.shape != weight.shape[1:]:
            return None
        require_moderate(g, constants[0], node.input[1])  # (2)
    return _Linear((node, *nodes), node.input[0], weight, bias)


def _heads(node: Node) -> int | None:
    """The number of heads; ``None`` if the node has attributes that com.microsoft.Attention lacks.

    Attributes with the value 0 are ignored, except the scale of the standard Attention.
    """
    if any(value for name, value in node.attribute.items() if name not in _ATTRIBUTES):
        return None
    heads: int = node.get_attribute("num_heads" if node.domain else "q_num_heads", None) or 0
    if heads <= 0:
        return None
    if node.domain:
        return heads
    has_zero_scale = node.get_attribute("scale", None) == 0
    has_groups = heads != node.get_attribute("kv_num_heads", None)
    return None if has_zero_scale or has_groups else heads


def _is_small(shape: Sequence[Any], *, is_standard: bool) -> bool:
    """Whether com.microsoft.Attention was measured to be no slower at (batch, length, features).

    ``is_standard`` says whether it replaces the Attention of the ONNX standard.
    """
    batch, length = (dim if isinstance(dim, int) else math.inf for dim in shape[:2])
    return length <= _MAX_LENGTH and (batch <= _MAX_BATCH or not is_standard)


def _fits(mask: Sequence[Any] | None, scores: Sequence[Any]) -> bool:
    """Whether a mask has the dimensions of the scores, where batch and heads may be 1."""
    return (
        mask is not None
        and len(mask) == 4
        and tuple(mask[2:]) == tuple(scores[2:])
        and all(dim in (1, size) for dim, size in zip(mask[:2], scores[:2], strict=True))
    )


def _write(
    layers: Sequence[_Linear],
    mask: str,
    attributes: dict[str, Any],
    g: PatternRewriter,
    *nodes: Node,
) -> list[Node]:
    """The com.microsoft.Attention, with the weights and biases of the layers concatenated."""
    weight = np.concatenate([layer.weight for layer in layers], axis=1)
    biases = [
        np.zeros(layer.weight.shape[1:], layer.weight.dtype) if layer.bias is None else layer.bias
        for layer in layers
    ]
    rank = len(g.get_shape(mask)) if mask else _RANK
    mask = mask if rank == _RANK else g.op.Unsqueeze(mask, axes=list(range(_RANK - rank)))
    has_bias = any(layer.bias is not None for layer in layers)
    operands = [
        layers[0].x,
        g.make_initializer("", weight),
        g.make_initializer("", np.concatenate(biases)) if has_bias else "",
        *(["", "", mask] if mask else []),
    ]
    y = nodes[-1].output[:1]
    return [
        *g.created,
        g.make_node("Attention", operands, y, domain="com.microsoft", **attributes),
    ]
