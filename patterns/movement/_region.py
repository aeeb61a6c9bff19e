"""Regions of operators that can work in another layout, and the cheapest part of a region to
change.
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
"""A node that is always chosen."""
NEVER = "never"
"""A node that is never chosen."""
_UNLIMITED = 1 << 62


class Term(NamedTuple):
    """A cost that is paid when some of ``chosen`` are chosen and some of ``left`` are not.

    Attributes:
        cost: not negative.
        counts: the number of nodes of the result that it represents.
        chosen: one or more nodes, or `ALWAYS`.
        left: one or more nodes, or `NEVER`.
    """

    cost: int
    counts: int
    chosen: tuple[Hashable, ...]
    left: tuple[Hashable, ...]

    def is_paid(self, choice: set[Hashable]) -> bool:
        """Whether a choice pays it."""
        return any(node == ALWAYS or node in choice for node in self.chosen) and any(
            node not in choice for node in self.left
        )


def price(terms: Sequence[Term], choice: set[Hashable]) -> tuple[int, int]:
    """The cost of a choice, and the number of nodes that it represents."""
    paid = [term for term in terms if term.is_paid(choice)]
    return sum(term.cost for term in paid), sum(term.counts for term in paid)


def cheapest(terms: Sequence[Term]) -> set[Hashable]:
    """The smallest of the choices that cost least.

    Each term is an edge of a network, from or to a vertex of its own where it has several nodes; a
    minimum cut between `ALWAYS` and `NEVER` leaves the chosen nodes on the side of `ALWAYS`. The
    maximum flow is found along shortest paths (Edmonds and Karp, *Theoretical Improvements in
    Algorithmic Efficiency for Network Flow Problems*, 1972).
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
    """The vertices that can be reached from `ALWAYS`, each with the one before it on a shortest
    path.
    """
    previous: dict[Hashable, Hashable] = {ALWAYS: ALWAYS}
    pending: list[Hashable] = [ALWAYS]
    for vertex in pending:
        for following, capacity in residual.get(vertex, {}).items():
            if capacity > 0 and following not in previous:
                previous[following] = vertex
                pending.append(following)
    return previous


_MAX_NODES: Final = 512
"""Most nodes of a region, so that the time a graph takes stays proportional to its size."""
_CROWD: Final = 64
"""A value with more readers than this stays as it is, and so does a node with more than twice as
many operands and results.
"""
_OVERHEAD: Final = 1024
"""Time of a Transpose besides copying, in float32 elements that could be copied."""
_TYPICAL: Final = 16
"""Assumed size of a dimension that is known at run time only."""
_FORBIDDEN: Final = 1 << 50


@dataclass
class TransposeRegion:
    """Nodes around a Transpose that can work in another layout.

    Attributes:
        nodes: each, and how it works in the other layout.
        layouts: of the values that they read and write, where another layout is another tensor.
        first: label of the first Transpose from which this region is found, ``None`` before the
            first search for it.
    """

    nodes: dict[Node, Carried] = field(default_factory=dict)
    layouts: dict[str, Perm] = field(default_factory=dict)
    first: int | None = None
    _readers: dict[str, list[Node]] = field(default_factory=dict)

    def add(self, node: Node, how: Carried) -> None:
        """Take in a node."""
        self.nodes[node] = how
        for name in dict.fromkeys(node.input):
            self._readers.setdefault(name, []).append(node)

    @property
    def is_cut_off(self) -> bool:
        """Whether it has as many nodes as a region may have: more may belong to it."""
        return len(self.nodes) == _MAX_NODES

    def readers(self, name: str) -> list[Node]:
        """The nodes of the region that read a value."""
        return self._readers.get(name, [])

    def part(self, chosen: Container[Hashable]) -> TransposeRegion:
        """Some nodes of the region, in the order of the graph."""
        part = TransposeRegion(layouts=self.layouts)
        for node in sorted((node for node in self.nodes if node in chosen), key=lambda n: n.label):
            part.add(node, self.nodes[node])
        return part


def _few_readers(g: GraphView, name: str) -> list[Node]:
    """The nodes that read a value; none if they are more than `_CROWD`."""
    readers = g.next_nodes(name)
    return readers if len(readers) <= _CROWD else []


def region_at(g: GraphView, operators: frozenset[str], name: str, perm: Perm) -> TransposeRegion:
    """The region of a value in the layout ``perm``, grown once for all its values while the graph
    is unchanged.
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
    """The nodes connected to a value that can work in another layout, when the value has the layout
    ``perm``.
    """
    region = TransposeRegion(layouts={name: perm})
    pending = [name]
    for value in pending:
        layout = region.layouts[value]
        producer = g.node_before(value)
        above = [producer] if producer is not None and producer.op_type not in CHANGING_RANK else []
        for node in (*_few_readers(g, value), *above):
            is_new = (
                node.op_type in operators
                and node not in region.nodes
                and len(node.input) + len(node.output) <= 2 * _CROWD
            )
            how = carried(g, node, value, layout) if is_new and not region.is_cut_off else None
            if how is None:
                continue
            moved = _values(g, node, how)
            staying = {name for place, name in enumerate(node.input) if place not in how.operands}
            fits = all(region.layouts.get(v, p) == p and v not in staying for v, p in moved.items())
            if fits and moved.get(value) == layout:
                region.add(node, how)
                pending += [v for v in moved if v not in region.layouts]
                region.layouts.update(moved)
    return region


def is_found_from(g: GraphView, region: TransposeRegion, anchor: Node) -> bool:
    """Whether a Transpose is the first one from which this region is found, so that it is tried
    once, or the region is cut off.
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
    """The values that a node reads and writes in another layout, constants not included."""
    operands = [(node.input[place], perm) for place, perm in how.operands.items()]
    results = list(zip(node.output, how.results, strict=True))
    values = {name: perm for name, perm in operands if not can_be_relaid(g, name)} | dict(results)
    moved = {name: perm for name, perm in values.items() if name and not is_identity(perm)}
    return {
        name: perm
        for name, perm in moved.items()
        if any(dim != 1 for dim in g.try_infer_shape(name) or (0,))
    }


def terms(g: GraphView, region: TransposeRegion) -> list[Term]:
    """The costs of all choices of nodes of a region that could work in the other layout."""
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
    """Nodes after a convolution, in one of the layouts, that read no other tensor of the region:
    biases and activations, which can be fused with it.
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
    """The costs of the Transposes of a value."""
    producer, readers = g.node_before(name), tuple(region.readers(name))
    outside = is_needed_as_it_is(g, region, name)
    cost = new = _OVERHEAD + _copied(g, name)
    # Integer kernels need operators right between these two, and onnxruntime changes int8 to uint8
    # where the two are adjacent.
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
        whole = composed(source.perm, perm)
        if not is_identity(whole):
            yield Term(
                _FORBIDDEN if _ends_onnxruntime(g, name, whole) else cost, 1, readers, (NEVER,)
            )
    elif equal_transpose(g, region, name) is None:
        yield Term(new, 1, readers, (NEVER,))


def _is_free_cast(g: GraphView, node: Node | None) -> bool:
    """Whether a Cast to float16 comes before operators that the CPU provider computes in float32.

    onnxruntime drops such a Cast, with its rounding, where no other operator is in between.
    """
    if node is None or not is_op(node, "Cast") or node.get_attribute("to") != TensorProto.FLOAT16:
        return False
    return (g.provider or "cpu") == "cpu" and any(
        has_kernel("cpu", reader.domain, reader.op_type, TensorProto.FLOAT16, reader.opset) is False
        for reader in _few_readers(g, node.output[0])
    )


def _ends_onnxruntime(g: GraphView, name: str, perm: Perm) -> bool:
    """Whether onnxruntime 1.32 crashes when it loads a Transpose of batches before a Cast that a
    MatMul reads: its fusion swaps both, and then finds no batches in the other operand.
    """
    if len(perm) < 3 or perm[:-2] != tuple(range(1, len(perm) - 1)):
        return False
    casts = [node.output[0] for node in _few_readers(g, name) if is_op(node, "Cast")]
    moved = [*casts, *(node.output[0] for cast in casts for node in transposes_of(g, cast))]
    return any(
        node.op_type in ("MatMul", "FusedMatMul") for value in moved for node in g.next_nodes(value)
    )


class Source(NamedTuple):
    """A Transpose through which a value enters a region, its operand, and its permutation."""

    node: Node
    operand: str
    perm: Perm


def source_of(g: GraphView, region: TransposeRegion, name: str) -> Source | None:
    """The Transpose that makes a value from a result of a node outside the region."""
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
    """A Transpose of a value to its layout that exists, before all nodes of the region that read
    the value.
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
    """Whether anything besides nodes of the region and Transposes reads a value in its own
    layout.
    """
    if g.is_output(name) or g.is_used_by_subgraph(name):
        return True
    inside = {*region.readers(name), *transposes_of(g, name)}
    # all consumers, where they are many
    consumers = [node for node in g.next_nodes(name) if node not in inside]
    return (
        not all(_absorbs(g, node, name) for node in consumers)
        if region.layouts.get(name) == (1, 0)
        else bool(consumers)
    )


def is_absorbed(g: GraphView, transpose: Node) -> bool:
    """Whether all readers of a Transpose are MatMuls that can read its operand in the layout that
    it has.
    """
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
    """Whether a node can read a value transposed: Gemm reads matrices by columns, and onnxruntime
    merges a Transpose, and a factor after it, into MatMuls of any rank.
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
    """The time to copy a value, in float32 elements, estimated for symbolic dimensions: half of it
    depends on the number of elements, half on their bytes.
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
