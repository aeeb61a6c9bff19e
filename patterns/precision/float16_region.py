from collections.abc import Sequence
from functools import cmp_to_key, partial
from typing import Final, NamedTuple

from onnx import TensorProto

from xoptim.facts.operators import convertible_places, has_kernel, operator_label
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import is_op
from .._operators import MOVING
from ._float16 import OTHERS, SUMS, recreated

_FLOAT, _HALF = TensorProto.FLOAT, TensorProto.FLOAT16
_OPERATORS: Final = frozenset(
    (*SUMS, *OTHERS, "Cos", "Exp", "Log", "Pow", "Reciprocal", "Sin", "Sqrt")
)
_MAX_NODES: Final = 64


class _Region(NamedTuple):
    """Nodes that compute in float16, and the Casts around them.

    Attributes:
        nodes: the nodes, in order.
        raised: for each float16 operand that a Cast computes from float32, this float32 tensor.
        lowered: for each float16 result that a Cast converts to float32, this Cast.
        outside: for each other float16 operand, the tensor that needs a Cast to float32: the
            operand of its Cast, or the operand itself.
        kept: float16 results that other nodes read.
    """

    nodes: list[Node]
    raised: dict[str, str]
    lowered: dict[str, Node]
    outside: dict[str, str]
    kept: list[str]


class Float16RegionPattern(PatternOptimization):
    """Cast(MatMul(Cast(x, to=FLOAT16), Cast(w, to=FLOAT16)), to=FLOAT) → MatMul(x, w)

    What: computes in float32 from float32 operands, without rounding them to float16. The same for
    regions of operators without float16 kernels.
    Why: the CPU provider has no such kernels. onnxruntime computes in float32 with Casts around
    each node, and drops the rounding between adjacent Casts when it loads the model. So the numbers
    are the same on the CPU. Measured 0.95 to 0.97 of the time for MatMul and Relu.
    Refuses when:
    1. the provider has a float16 kernel, which GPUs need for their speed.
    2. the number of Casts would not decrease. Constants and other float16 operands need a Cast, and
       so do results that other nodes read in float16.
    """

    phase = "target"
    exactness = "rounding"
    providers = ("cpu",)
    min_opset = 6
    tags = ("onnxruntime",)
    anchors = ("Cast",)
    radius = 4

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        if _cast_types(g, node) == (_FLOAT, _HALF):
            seeds = g.next_nodes(node.output[0])
        elif _cast_types(g, node) == (_HALF, _FLOAT):
            seeds = [*filter(None, [g.node_before(node.input[0])])]
        else:
            return self.none(node, msg="not a Cast between float32 and float16")
        seed = next((seed for seed in seeds if _is_computed_in_float32(g, seed)), None)
        if seed is None:  # (1)
            return self.none(node, msg="no operator without a float16 kernel is next to the Cast")
        region = _grown(g, seed)
        if _removed(g, region) <= len(region.outside) + len(region.kept):  # (2)
            return self.none(seed, msg="the number of Casts would not decrease")
        nodes = [*region.nodes, *region.lowered.values()]
        return MatchResult(self, nodes, partial(self._replace, region))

    def _replace(self, region: _Region, g: PatternRewriter, *_: Node) -> list[Node]:
        names, casts = dict(region.raised), []
        for name, source in region.outside.items():
            names[name] = g.unique_name(f"{name}_float")
            casts.append(g.make_node("Cast", [source], [names[name]], to=_FLOAT))
        for name in _results(g, region.nodes):
            cast = region.lowered.get(name)
            names[name] = g.unique_name(f"{name}_float") if cast is None else cast.output[0]
        copies = [
            recreated(
                g,
                node,
                [names.get(name, name) for name in node.input],
                [names.get(name, name) for name in node.output],
            )
            for node in region.nodes
        ]
        ends = [g.make_node("Cast", [names[name]], [name], to=_HALF) for name in region.kept]
        return [*casts, *copies, *ends]

    _start = "agraph (float[n,2] x, float[2,2] w)"
    _halves = "a = Cast <to = 10> (x) b = Cast <to = 10> (w) p = MatMul(a, b)"
    examples = Example.pairs(
        f"{_start} => (float16[n,2] y) {{ {_halves} q = Cast <to = 1> (p) r = Sin(q) "
        "y = Cast <to = 10> (r) }",
        "{ q = MatMul(x, w) r = Sin(q) y = Cast <to = 10> (r) }",
        f"{_start} => (float16[2,n] y) {{ {_halves} t = Relu(p) y = Transpose(t) }}",
        "{ p = MatMul(x, w) t = Relu(p) u = Transpose(t) y = Cast <to = 10> (u) }",
    )


def _cast_types(g: GraphView, node: Node | None) -> tuple[int, int] | None:
    """The element types of operand and result of a Cast; ``None`` for other nodes."""
    if node is None or not is_op(node, "Cast"):
        return None
    return g.try_infer_type(node.input[0]), node.get_attribute("to")


def _is_computed_in_float32(g: GraphView, node: Node | None) -> bool:
    """Whether the CPU provider converts the float16 operands of a node to float32."""
    return node is not None and _is_convertible(g, node) and not is_op(node, *MOVING)


def _is_convertible(g: GraphView, node: Node) -> bool:
    """Whether a float16 node may become float32: it has no float16 kernel, or moves elements."""
    if operator_label(node.op_type, node.domain) not in _OPERATORS:
        return False
    counts = len(node.input), len(node.output)
    free = convertible_places(node.op_type, node.domain, node.opset, counts, (_FLOAT, _HALF))
    operands, results = (
        {place for place, name in enumerate(names) if name and g.try_infer_type(name) == _HALF}
        for names in (node.input, node.output)
    )
    if not operands or not results or not (operands <= free[0] and results <= free[1]):
        return False
    if not all(g.try_infer_type(name) for name in node.input if name):  # may be float16 as well
        return False
    kernels = [
        has_kernel("cpu", node.domain, node.op_type, dtype, node.opset) for dtype in (_HALF, _FLOAT)
    ]
    return kernels[1] is True and (not kernels[0] or is_op(node, *MOVING))


def _results(g: GraphView, nodes: Sequence[Node]) -> list[str]:
    """The float16 results of nodes."""
    names = [name for node in nodes for name in node.output]
    return [name for name in names if name and g.try_infer_type(name) == _HALF]


def _grown(g: GraphView, seed: Node) -> _Region:
    """The region around a node."""
    nodes: dict[Node, None] = {seed: None}
    pending = [seed]
    while pending and len(nodes) < _MAX_NODES:
        node = pending.pop(0)
        halves = [name for name in node.input if g.try_infer_type(name) == _HALF]
        neighbors = [*map(g.node_before, halves)]
        for name in _results(g, [node]):
            neighbors += g.next_nodes(name)
        for neighbor in neighbors:
            if neighbor is not None and neighbor not in nodes and _is_convertible(g, neighbor):
                nodes[neighbor] = None
                pending.append(neighbor)

    def order(first: Node, second: Node) -> int:
        return -1 if g.is_before(first, second) else 1

    return _bounded(g, sorted(nodes, key=cmp_to_key(order)))


def _bounded(g: GraphView, nodes: list[Node]) -> _Region:
    """The region of ``nodes``, with the Casts around it."""
    region = _Region(nodes, {}, {}, {}, [])
    results = _results(g, nodes)
    for name in dict.fromkeys(name for node in nodes for name in node.input):
        if name in results or g.try_infer_type(name) != _HALF:
            continue
        cast = g.node_before(name)
        if cast is None or not is_op(cast, "Cast"):
            region.outside[name] = name
        else:
            # onnxruntime, too, drops this Cast together with the Cast that it inserts.
            is_float = g.try_infer_type(cast.input[0]) == _FLOAT
            (region.raised if is_float else region.outside)[name] = cast.input[0]
    for name in results:
        readers = [reader for reader in g.next_nodes(name) if reader not in nodes]
        casts = [reader for reader in readers if _cast_types(g, reader) == (_HALF, _FLOAT)]
        if casts:
            region.lowered[name] = casts[0]
        if casts[:1] != readers or g.is_output(name) or g.is_used_by_subgraph(name):
            region.kept.append(name)
    return region


def _removed(g: GraphView, region: _Region) -> int:
    """The number of Casts that the rewrite removes."""
    casts = [*region.raised, *(name for name in region.outside if region.outside[name] != name)]
    unread = [name for name in casts if g.is_used_only_by(name, *region.nodes)]
    return len(unread) + len(region.lowered)
