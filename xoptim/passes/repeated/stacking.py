"""The passes that compute repeated operations together, and their explanations."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from xoptim.graph.constants import is_constant
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.match.rewrite import Example, Finding, ModelPass
from xoptim.passes.repeated.choice import Choice, StackRegion
from xoptim.passes.repeated.cost import COSTS, Costs
from xoptim.passes.repeated.groups import (
    Group,
    LaneOperand,
    Sums,
    arrange,
    by_result,
    find_groups,
    is_parameter,
    part_of,
    settings,
)


def findings(graph: Graph, costs: Costs, fewest: int, *, is_forced: bool) -> Iterator[Finding]:
    """Whether each group is stacked, and the effect; and why nodes of one operator and level
    differ.

    Groups have at least ``fewest`` nodes. With ``is_forced``, groups that do not become faster are
    stacked as well.
    """
    sums = Sums(graph)
    # Constants are left to folding.
    classes = [
        group
        for group in find_groups(sums, fewest=1)
        if not is_constant(graph, group.first.output[0])
    ]
    groups = [group for group in classes if len(group) >= fewest]
    arrange(groups)
    choice = Choice(sums, groups)
    choice.prune()
    reasons = {
        group: f"{len(group)} nodes are too few" for group in classes if 1 < len(group) < fewest
    }
    for group, reason in {**reasons, **choice.refused}.items():
        yield Finding(tuple(group.nodes), reason)
    for region in choice.regions():
        outlook = StackRegion(sums, region).outlook(costs)
        reason = (outlook.forced if is_forced else outlook).refusal
        for group in region:
            yield Finding(tuple(group.nodes), reason, "" if reason else f"{outlook} in its region")
    yield from _differences(sums, classes) if is_forced else ()


def _differences(sums: Sums, classes: Sequence[Group]) -> Iterator[Finding]:
    class_of = by_result(classes)
    for _, groups in groupby(sorted(classes, key=_kind), key=_kind):
        largest, *smaller = sorted(groups, key=lambda group: -len(group))
        for group in smaller:
            if not _are_parts(sums.graph, group.first.output[0], largest.first.output[0]):
                reason = (
                    f"not together with {largest.first.output[0]!r}: "
                    f"{_difference(sums, class_of, group, largest)}"
                )
                yield Finding((group.first, largest.first), reason)


def _kind(group: Group) -> tuple[int, str]:
    return group.level, group.first.op_type


def _are_parts(graph: Graph, name: str, peer: str) -> bool:
    """Whether two results are Slices of one value: their readers may be stacked together."""
    return part_of(graph, name) == part_of(graph, peer) is not None


def _difference(sums: Sums, class_of: Mapping[str, Group], group: Group, peer: Group) -> str:
    """The first difference of two classes of an operator: in their settings, or in settings of
    nodes that they depend on.
    """
    where = ""
    while True:
        difference = _own_difference(sums, group, peer)
        if difference:
            return where + difference
        # Operands of commutative operators are sorted so that they correspond.
        pairs = zip(group.operands[group.first], peer.operands[peer.first], strict=True)
        mismatches = (pair for pair in pairs if class_of.get(pair[0]) is not class_of.get(pair[1]))
        a, b = next((pair for pair in mismatches if not _are_parts(sums.graph, *pair)), ("", ""))
        if not a or not b:
            return f"{where}their operands are different results of equal nodes"
        where = f"their operands are computed by nodes that differ, {a!r} and {b!r}: "
        if a not in class_of or b not in class_of:
            return f"{where}only one of them can be stacked"
        group, peer = class_of[a], class_of[b]
        if group.first.op_type != peer.first.op_type:
            return f"{where}operator: {group.first.op_type} and {peer.first.op_type}"
        if group.level != peer.level:
            return f"{where}number of preceding nodes: {group.level - 1} and {peer.level - 1}"


def _own_difference(sums: Sums, group: Group, peer: Group) -> str:
    """The first setting in which two classes of an operator differ, "" if there is none."""
    node, peer_node = group.first, peer.first
    first, second = (settings(sums.graph, n, sums.terms(n)) for n in (node, peer_node))
    assert first is not None
    assert second is not None
    if len(first.operands) != len(second.operands):
        return f"number of operands: {len(first.operands)} and {len(second.operands)}"
    names = ("operator", "attributes", *("type and shape of a result" for _ in node.output))
    for name, a, b in zip(names, first.own, second.own, strict=False):
        if a != b:
            return f"{name}: {_text(a)} and {_text(b)}"
    for place, (a, b) in enumerate(zip(first.operands, second.operands, strict=False)):
        if a != b:
            return f"operand {place}: " + (
                "another value" if is_parameter(node, place) else f"{_text(a)} and {_text(b)}"
            )
    return ""


def _text(setting: object) -> str:
    if isinstance(setting, LaneOperand):
        return f"({', '.join(map(str, setting.shape))}){' stored' if setting.is_constant else ''}"
    assert isinstance(setting, tuple)
    if setting and all(isinstance(item, tuple) for item in setting):
        return ", ".join(f"{name} = {value}" for name, value in setting)
    return f"({', '.join(map(str, setting[1]))})" if setting else "none"


_MIN_NODES: Final = 4
"""Groups of fewer nodes are not faster as a stack, however fast the nodes are."""


class Repeated(ModelPass):
    """Equal operations side by side → one operation on stacked operands.

    What: finds nodes of one level with equal settings (operator, attributes, types and shapes), and
    computes them as one node whose operands are stacked along a new batch dimension; weights are
    stacked ahead of time. Results stay stacked through all levels that have the same nodes, and are
    selected by index where the levels differ. A sum over the batch dimension is one reduction, even
    if it is written as a chain or a tree of Adds.
    Why: one kernel launch instead of k, and larger MatMuls.
        Where that is faster, `RepeatedOnCpu` does it by default.
    Refuses when:
    1. a shape or a type is unknown, or settings differ.
    2. it saves no nodes.
    """

    phase = "final"
    exactness = "rounding"
    min_opset = 13
    tags = ("repeated", "extra")

    _weights = (
        "float[2,2] u = {1, 2, 3, 4}, float[2,2] v = {5, 6, 7, 8}, float[2,2] w = {0.5, 0.25, 0, 1}"
    )
    _matmuls = (
        "a = MatMul(x, u) b = MatMul(x, v) c = MatMul(x, w) d = Tanh(a) e = Tanh(b) f = Tanh(c)"
    )
    _stack = "float[3,2,2] s = {1, 2, 3, 4, 5, 6, 7, 8, 0.5, 0.25, 0, 1}"
    examples = (
        Example(
            f"agraph (float[n,2] x) => (float[n,2] y) <{_weights}> {{ {_matmuls} "
            "y = Sum(d, e, f) }",
            f"agraph (float[n,2] x) => (float[n,2] y) <{_stack}, int64[1] o = {{0}}> "
            "{ a = MatMul(x, s) d = Tanh(a) y = ReduceSum <keepdims = 0> (d, o) }",
        ),
        Example(
            f"agraph (float[n,2] x) => (float[n,2] y, float[n,2] f) <{_weights}> {{ {_matmuls} "
            "h = Erf(d) i = Erf(e) j = Erf(f) k = Mul(h, i) l = Mul(i, j) m = Mul(j, h) "
            "y = Mean(k, l, m) }",
            f"agraph (float[n,2] x) => (float[n,2] y, float[n,2] f) <{_stack}, "
            "int64[1] o = {0}, int64 two = {2}, int64[3] p = {1, 2, 0}> { a = MatMul(x, s) "
            "d = Tanh(a) f = Gather(d, two) h = Erf(d) i = Gather(h, p) k = Mul(h, i) "
            "y = ReduceMean <keepdims = 0> (k, o) }",
        ),
        Example(
            f"agraph (float[n,2] x) => (float[n,2] y) <{_weights}> {{ a = MatMul(x, u) "
            "b = MatMul(x, v) c = MatMul(x, w) d = Relu(a) e = Relu(b) f = Relu(c) g = Add(x, d) "
            "h = Add(g, e) y = Add(h, f) }",
            f"agraph (float[n,2] x) => (float[n,2] y) <{_stack}, int64[1] o = {{0}}> "
            "{ a = MatMul(x, s) d = Relu(a) e = ReduceSum <keepdims = 0> (d, o) y = Add(e, x) }",
        ),
    )

    def run(self, model: Model) -> int:
        """Stack the groups of all graphs; returns the number of stacks."""
        return sum(stack(graph) for graph in list(model.graphs()))

    def findings(self, model: Model) -> list[Finding]:
        """All groups, and why nodes of one operator and level are in several of them."""
        return [
            finding
            for graph in model.graphs()
            for finding in findings(graph, COSTS["cpu"], fewest=2, is_forced=True)
        ]


def _eight_layers() -> Example:
    """Layers of two rows, whose results are added."""
    lanes = range(8)
    weights = ", ".join(f"float[2,2] w{lane} = {{{lane}, 2, 3, 4}}" for lane in lanes)
    layers = " ".join(
        f"a{lane} = MatMul(x, w{lane}) b{lane} = Tanh(a{lane}) c{lane} = Erf(b{lane})"
        for lane in lanes
    )
    total, stack = (
        ", ".join(form.format(lane=lane) for lane in lanes)
        for form in ("c{lane}", "{lane}, 2, 3, 4")
    )
    return Example(
        f"agraph (float[2,2] x) => (float[2,2] y) <{weights}> {{ {layers} y = Sum({total}) }}",
        f"agraph (float[2,2] x) => (float[2,2] y) <float[8,2,2] s = {{{stack}}}, "
        "int64[1] o = {0}> { a = MatMul(x, s) b = Tanh(a) c = Erf(b) "
        "y = ReduceSum <keepdims = 0> (c, o) }",
    )


class RepeatedOnCpu(ModelPass):
    """Equal operations side by side → one operation on stacked operands, where that is faster on
    the CPU.

    What: as `Repeated`, for groups of at least four nodes, in regions that are faster together.
    Why: many small operations take longer to launch than to compute. MatMuls with many rows take
    longer together, as onnxruntime packs a stack of matrices in every run.
    Refuses when:
    1. `Repeated` refuses.
    2. at some size, it is estimated (`xoptim.passes.repeated.cost`) to take more than 0.9 of the
       time of the single nodes, or to save less than 5 us.
    3. a MatMul may have a single row: onnxruntime has another kernel for a stack of such MatMuls,
       which overflows sooner.
    """

    phase = "final"
    exactness = "rounding"
    min_opset = 13
    providers = ("cpu",)
    tags = ("repeated",)

    examples = (_eight_layers(),)

    def run(self, model: Model) -> int:
        """Stack the groups of all graphs where that is faster; returns the number of stacks."""
        return sum(stack(graph, COSTS["cpu"], _MIN_NODES) for graph in list(model.graphs()))

    def findings(self, model: Model) -> list[Finding]:
        """All groups, and whether they become faster."""
        return [
            finding
            for graph in model.graphs()
            for finding in findings(graph, COSTS["cpu"], _MIN_NODES, is_forced=False)
        ]


def stack(graph: Graph, costs: Costs | None = None, fewest: int = 2) -> int:
    """Replace groups of ``fewest`` nodes or more by stacks, with ``costs`` only where that is
    faster; returns their number.
    """
    sums = Sums(graph)
    groups = find_groups(sums, fewest)
    if not groups:
        return 0
    arrange(groups)
    choice = Choice(sums, groups)
    choice.prune()
    return sum(
        len(groups) for groups in choice.regions() if StackRegion(sums, groups).rewrite(costs)
    )
