"""Regions of operators that can work in another layout, and the part of a region to change.

The part is the one with the lowest cost of Transposes: a minimum cut.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from onnx import TensorProto

from xoptim.facts.dims import SymbolicDim, substitute
from xoptim.facts.dtypes import bits
from xoptim.facts.operators import has_kernel
from xoptim.match import GraphView, Node, runs

from .._nodes import is_op, permutation
from ._layouts import CHANGING_RANK, Carried, Perm, can_be_relaid, carried, composed, is_identity

ALWAYS = "always"
"""A stand-in for a node that is always chosen."""
NEVER = "never"
"""A stand-in for a node that is never chosen."""
_UNLIMITED = 1 << 62


class Term(NamedTuple):
    """A cost that is paid if a node of ``chosen`` is chosen and a node of ``left`` is not.

    Attributes:
        cost: 0 or more.
        counts: the number of nodes, such as Transposes, that the result has then.
        chosen: one or more nodes, or `ALWAYS`.
        left: one or more nodes, or `NEVER`.
    """

    cost: int
    counts: int
    chosen: tuple[Hashable, ...]
    left: tuple[Hashable, ...]

    def is_paid(self, choice: set[Hashable]) -> bool:
        """Whether the cost is paid for a choice of nodes."""
        return any(node == ALWAYS or node in choice for node in self.chosen) and any(
            node not in choice for node in self.left
        )


def price(terms: Sequence[Term], choice: set[Hashable]) -> tuple[int, int]:
    """The total cost of a choice of nodes, and the total number of nodes that its terms count."""
    paid = [term for term in terms if term.is_paid(choice)]
    return sum(term.cost for term in paid), sum(term.counts for term in paid)


def cheapest(terms: Sequence[Term]) -> set[Hashable]:
    """The choice of nodes with the lowest cost; the smallest one if there are several.

    Each term is an edge of a network. If it has several nodes at one end, the end is an auxiliary
    vertex. A minimum cut between `ALWAYS` and `NEVER` leaves the chosen nodes on the side of
    `ALWAYS`. It comes from a maximum flow along shortest paths (Edmonds and Karp, *Theoretical
    Improvements in Algorithmic Efficiency for Network Flow Problems*, 1972).
    """
    residual: dict[Hashable, Counter[Hashable]] = defaultdict(Counter)
    auxiliary: set[Hashable] = {ALWAYS}

    def connect(a: Hashable, b: Hashable, capacity: int) -> None:
        if a != b:
            residual[a][b] += capacity
            residual[b][a] += 0

    for number, term in enumerate(terms):
        above: Hashable = ("above", number) if len(term.chosen) > 1 else term.chosen[0]
        below: Hashable = ("below", number) if len(term.left) > 1 else term.left[0]
        auxiliary |= {above} - {*term.chosen} | {below} - {*term.left}
        for node in term.chosen:
            connect(node, above, _UNLIMITED)
        for node in term.left:
            connect(below, node, _UNLIMITED)
        connect(above, below, term.cost)
    while True:
        previous = _reached(residual)
        if NEVER not in previous:
            return set(previous) - auxiliary
        path: list[Hashable] = [NEVER]
        while path[-1] != ALWAYS:
            path.append(previous[path[-1]])
        steps = list(zip(path[1:], path[:-1], strict=True))
        flow = min(residual[a][b] for a, b in steps)
        for a, b in steps:
            residual[a][b] -= flow
            residual[b][a] += flow


def _reached(residual: Mapping[Hashable, Mapping[Hashable, int]]) -> dict[Hashable, Hashable]:
    """The vertices that can be reached from `ALWAYS`.

    The value of each vertex is its predecessor on a shortest path.
    """
    previous: dict[Hashable, Hashable] = {ALWAYS: ALWAYS}
    pending: list[Hashable] = [ALWAYS]
    for vertex in pending:
        for neighbor, capacity in residual.get(vertex, {}).items():
            if capacity > 0 and neighbor not in previous:
                previous[neighbor] = vertex
                pending.append(neighbor)
    return previous


_MAX_NODES: Final = 512
"""Maximum nodes of a region, so that the time for a graph stays proportional to its size."""
_CROWD: Final = 64
"""Maximum consumers of a value whose layout changes. A node may have twice as many operands and
results.
"""
_OVERHEAD: Final = 1024
"""Fixed cost of a Transpose, in float32 elements that are copied in the same time."""
_TYPICAL: Final = 16
"""Assumed size of a dimension that is known at run time only."""
_FORBIDDEN: Final = 1 << 50
"""Cost of a Transpose that must not be written: more than all others together."""


@dataclass
class TransposeRegion:
    """Nodes around a Transpose that can work in another layout.

    Attributes:
        nodes: the nodes, each with its form in the other layout.
        layouts: the layouts of their operands and results, without values that are the same tensor
            in both layouts.
        first: label of the first Transpose from which this region is found; ``None`` before the
            first search for it.
    """

    nodes: dict[Node, Carried] = field(default_factory=dict)
    layouts: dict[str, Perm] = field(default_factory=dict)
    first: int | None = None
    _readers: dict[str, list[Node]] = field(default_factory=dict)

    def add(self, node: Node, how: Carried) -> None:
        """Add a node with its form in the other layout."""
        self.nodes[node] = how
        for name in dict.fromkeys(node.input):
            self._readers.setdefault(name, []).append(node)

    @property
    def is_cut_off(self) -> bool:
        """Whether the region has the maximum number of nodes, so that some may be missing."""
        return len(self.nodes) == _MAX_NODES

    def readers(self, name: str) -> list[Node]:
        """The nodes of the region that read a value."""
        return self._readers.get(name, [])

    def part(self, chosen: Container[Hashable]) -> TransposeRegion:
        """The chosen nodes of the region, in the order of the graph."""
        part = TransposeRegion(layouts=self.layouts)
        for node in sorted((node for node in self.nodes if node in chosen), key=lambda n: n.label):
            part.add(node, self.nodes[node])
        return part


def _few_readers(g: GraphView, name: str) -> list[Node]:
    """The nodes that read a value; none if there are more than `_CROWD`."""
    readers = g.next_nodes(name)
    return readers if len(readers) <= _CROWD else []


def region_at(g: GraphView, operators: frozenset[str], name: str, perm: Perm) -> TransposeRegion:
    """The region of a value in the layout ``perm``.

    While the graph is unchanged, the region is grown once and kept for all its values.
    """
    if g.notes is None:
        return grow(g, operators, name, perm)
    region: TransposeRegion | None = g.notes.get((operators, name, perm))
    if region is None:
        region = grow(g, operators, name, perm)
        if not region.is_cut_off:
            g.notes.update(
                dict.fromkeys(((operators, *value) for value in region.layouts.items()), region)
            )
    return region


def grow(g: GraphView, operators: frozenset[str], name: str, perm: Perm) -> TransposeRegion:
    """The region of nodes around a value that can work if the value has the layout ``perm``."""
    region = TransposeRegion(layouts={name: perm})
    pending = [name]
    for value in pending:
        layout = region.layouts[value]
        producer = g.node_before(value)
        sources = (
            [producer] if producer is not None and producer.op_type not in CHANGING_RANK else []
        )
        for node in (*_few_readers(g, value), *sources):
            is_new = (
                node.op_type in operators
                and node not in region.nodes
                and len(node.input) + len(node.output) <= 2 * _CROWD
            )
            how = carried(g, node, value, layout) if is_new and not region.is_cut_off else None
            if how is None:
                continue
            moved = _values(g, node, how)
            staying = {name for index, name in enumerate(node.input) if index not in how.operands}
            fits = all(region.layouts.get(v, p) == p and v not in staying for v, p in moved.items())
            if fits and moved.get(value) == layout:
                region.add(node, how)
                pending += [v for v in moved if v not in region.layouts]
                region.layouts.update(moved)
    return region


def is_found_from(g: GraphView, region: TransposeRegion, anchor: Node) -> bool:
    """Whether ``anchor`` is the Transpose at which a region is tried, so that it is tried once.

    This is the first Transpose from which the region is found. A region that is cut off is tried at
    each of its Transposes.
    """
    if region.is_cut_off:
        return True
    if region.first is None:
        region.first = min(_ends(g, region), default=anchor.label)
    return region.first >= anchor.label


def _ends(g: GraphView, region: TransposeRegion) -> Iterator[int]:
    """The labels of the Transposes from which a region is found."""
    for name, perm in region.layouts.items():
        yield from (
            node.label for node in transposes_of(g, name) if permutation(g, node) == list(perm)
        )
        source = source_of(g, region, name)
        if source is not None and is_identity(composed(source.perm, perm)):
            yield source.node.label


def _values(g: GraphView, node: Node, how: Carried) -> dict[str, Perm]:
    """The layouts of the values that a node reads and writes, except constants.

    A value that is the same tensor in both layouts is skipped.
    """
    operands = [(node.input[index], perm) for index, perm in how.operands.items()]
    results = list(zip(node.output, how.results, strict=True))
    values = {name: perm for name, perm in operands if not can_be_relaid(g, name)} | dict(results)
    moved = {name: perm for name, perm in values.items() if name and not is_identity(perm)}
    return {
        name: perm
        for name, perm in moved.items()
        if any(dim != 1 for dim in g.try_infer_shape(name) or (0,))
    }


def terms(g: GraphView, region: TransposeRegion) -> list[Term]:
    """The terms of the cost of changing the layout of some nodes of a region."""
    costs: list[Term] = []
    for name, perm in region.layouts.items():
        costs += _costs(g, region, name, perm)
    for node, how in region.nodes.items():
        if how.cost != (0, 0):
            inside = [copies * _copied(g, node.output[0]) for copies in how.cost]
            costs += [Term(inside[0], 0, (ALWAYS,), (node,)), Term(inside[1], 0, (node,), (NEVER,))]
    before, after = (_after_convolutions(g, region, is_moved) for is_moved in (False, True))
    costs += [Term(1, 0, (node,), (NEVER,)) for node in before if node not in after]
    costs += [Term(1, 0, (ALWAYS,), (node,)) for node in after if node not in before]
    return [term for term in costs if term.cost and term.chosen and term.left]


def _after_convolutions(g: GraphView, region: TransposeRegion, is_moved: bool) -> list[Node]:
    """Biases and activations that follow a convolution directly, so that both can be fused.

    They read no other tensor of the region. With ``is_moved``, the nodes have the other layout, and
    a Transpose between convolution and region may vanish.
    """
    followers: dict[Node, None] = {}
    for node in sorted(region.nodes, key=lambda n: n.label):
        operands = [name for name in node.input if name in region.layouts]
        producer = g.node_before(operands[0]) if len(operands) == 1 else None
        if is_moved and producer is not None and producer not in region.nodes:
            source = source_of(g, region, operands[0])
            is_read = source is not None and is_identity(
                composed(source.perm, region.layouts[operands[0]])
            )
            producer = g.node_before(producer.input[0]) if is_read else None
        if producer in followers or is_op(producer, "Conv", "ConvTranspose"):
            followers[node] = None
    return list(followers)


def _costs(g: GraphView, region: TransposeRegion, name: str, perm: Perm) -> Iterable[Term]:
    """The cost terms of the Transposes of a value."""
    producer, readers = g.node_before(name), tuple(region.readers(name))
    outside = is_needed_as_it_is(g, region, name)
    cost = new = _OVERHEAD + _copied(g, name)
    # No Transpose may come between a DequantizeLinear, an operator and a QuantizeLinear, or
    # onnxruntime has no integer kernel. For int8, it may not come between a QuantizeLinear and its
    # DequantizeLinear: onnxruntime converts only adjacent pairs to uint8.
    ends = ("QuantizeLinear", "DequantizeLinear")[
        :: -1 if g.try_infer_type(name) == TensorProto.INT8 else 1
    ]
    if is_op(producer, ends[1]) or any(is_op(reader, ends[0]) for reader in _few_readers(g, name)):
        new = _FORBIDDEN
    if _ends_onnxruntime(g, name, perm) or _is_free_cast(g, producer):
        new = _FORBIDDEN
    transposes = transposes_of(g, name)
    if producer in region.nodes:
        above: tuple[Hashable, ...] = (producer,)
        for transpose in transposes:
            if permutation(g, transpose) == list(perm) and not is_absorbed(g, transpose):
                yield Term(cost, 1, (ALWAYS,), above)
        yield Term(new, 1, above, (NEVER,) if outside else readers)
        yield Term(new, 1, readers, above)
        return
    source = source_of(g, region, name)
    if source is not None:
        if not outside and not transposes and not is_absorbed(g, source.node):
            yield Term(cost, 1, (ALWAYS,), readers)
        joint_perm = composed(source.perm, perm)
        if not is_identity(joint_perm):
            yield Term(
                _FORBIDDEN if _ends_onnxruntime(g, name, joint_perm) else cost,
                1,
                readers,
                (NEVER,),
            )
    elif equal_transpose(g, region, name) is None:
        yield Term(new, 1, readers, (NEVER,))


def _is_free_cast(g: GraphView, node: Node | None) -> bool:
    """Whether a Cast to float16 feeds operators that the CPU provider computes in float32.

    If the two are adjacent, onnxruntime drops the Cast and its rounding. A Transpose in between
    would change the results.
    """
    if node is None or not is_op(node, "Cast") or node.get_attribute("to") != TensorProto.FLOAT16:
        return False
    return (g.provider or "cpu") == "cpu" and any(
        has_kernel("cpu", reader.domain, reader.op_type, TensorProto.FLOAT16, reader.opset) is False
        for reader in _few_readers(g, node.output[0])
    )


def _ends_onnxruntime(g: GraphView, name: str, perm: Perm) -> bool:
    """Whether onnxruntime 1.32 would crash when it loads a model with this Transpose.

    The Transpose moves the first axis to one of the last two, and a Cast and a MatMul follow. The
    fusion of onnxruntime swaps Transpose and Cast, and then expects batch axes in both operands.
    """
    if len(perm) < 3 or perm[:-2] != tuple(range(1, len(perm) - 1)):
        return False
    casts = [node.output[0] for node in _few_readers(g, name) if is_op(node, "Cast")]
    moved = [*casts, *(node.output[0] for cast in casts for node in transposes_of(g, cast))]
    return any(
        node.op_type in ("MatMul", "FusedMatMul") for value in moved for node in g.next_nodes(value)
    )


class Source(NamedTuple):
    """A Transpose whose result enters a region, its operand, and its permutation."""

    node: Node
    operand: str
    perm: Perm


def source_of(g: GraphView, region: TransposeRegion, name: str) -> Source | None:
    """The Transpose that computes a value of the region from a tensor outside, or ``None``."""
    node = g.node_before(name)
    perm = permutation(g, node) if node is not None else None
    if node is None or perm is None or g.node_before(node.input[0]) in region.nodes:
        return None
    return Source(node, node.input[0], tuple(perm))


def transposes_of(g: GraphView, name: str) -> list[Node]:
    """The Transpose nodes that read a value, with known permutations."""
    return [
        node
        for node in _few_readers(g, name)
        if is_op(node, "Transpose") and permutation(g, node) is not None
    ]


def equal_transpose(g: GraphView, region: TransposeRegion, name: str) -> Node | None:
    """An existing Transpose of a value to its layout in the region, or ``None``.

    It precedes all nodes of the region that read the value.
    """
    first = min((node.label for node in region.readers(name)), default=0)
    for node in transposes_of(g, name):
        if (
            permutation(g, node) == list(region.layouts[name])
            and node.label < first
            and node.output[0] not in region.layouts
        ):
            return node
    return None


def is_needed_as_it_is(g: GraphView, region: TransposeRegion, name: str) -> bool:
    """Whether a consumer outside the region needs a value in its original layout.

    Transposes do not, because they are composed with the layout. Neither do MatMul and Gemm if they
    can read a transposed matrix.
    """
    if g.is_output(name) or g.is_used_by_subgraph(name):
        return True
    # If there are more than `_CROWD` consumers, ``inside`` lacks the Transposes.
    inside = {*region.readers(name), *transposes_of(g, name)}
    consumers = [node for node in g.next_nodes(name) if node not in inside]
    return (
        not all(_absorbs(g, node, name) for node in consumers)
        if region.layouts.get(name) == (1, 0)
        else bool(consumers)
    )


def is_absorbed(g: GraphView, transpose: Node) -> bool:
    """Whether all consumers of a Transpose are MatMul or Gemm that can read its operand instead."""
    name, perm = transpose.output[0], permutation(g, transpose) or []
    readers = _few_readers(g, name)
    is_swap = perm == [*range(len(perm) - 2), len(perm) - 1, len(perm) - 2] and not g.is_output(
        name
    )
    return (
        is_swap
        and bool(readers)
        and not g.is_used_by_subgraph(name)
        and all(_absorbs(g, node, name) for node in readers)
    )


def _absorbs(g: GraphView, node: Node, name: str) -> bool:
    """Whether a node can read a value through a Transpose of the last two axes at no cost.

    Gemm has transA and transB. onnxruntime fuses a Transpose, and a factor after it, into a MatMul
    of any rank.
    """
    if is_op(node, "Gemm"):
        return name in node.input[:2] and name not in node.input[2:]
    if is_op(node, "MatMul") and all(g.info(i).rank == 2 for i in node.input):
        return runs(g, "Gemm", name)
    if g.info(name).rank == 2 or g.try_infer_type(name) != TensorProto.FLOAT:
        return False
    if is_op(node, "Mul", "Div") and node.input[0] == name and g.is_exclusive(node.output[0]):
        return g.get_constant_scalar(node.input[1]) is not None and is_op(
            g.next_node(node.output[0]), "MatMul"
        )
    return is_op(node, "MatMul")


def _copied(g: GraphView, name: str) -> int:
    """The estimated time to copy a value, in float32 elements that are copied in the same time.

    Half of the time depends on the number of elements, half on their bytes. Symbolic dimensions
    count as `_TYPICAL`.
    """
    info = g.info(name)
    elements = math.prod(dim if isinstance(dim, int) else _typical(dim) for dim in info.shape or ())
    return elements * (32 + (bits(info.dtype) or 32)) // 64


@lru_cache(maxsize=1024)
def _typical(dim: SymbolicDim) -> int:
    try:
        size = substitute(dim, dict.fromkeys(dim.symbols, _TYPICAL))
    except ZeroDivisionError:
        return _TYPICAL
    return max(size, 1) if isinstance(size, int) else _TYPICAL
