"""Operands of Concat that are concatenated, empty, or pieces of one tensor."""

from collections.abc import Sequence
from functools import partial

from xoptim.facts.shapes import normalized
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import agree_elsewhere, axis_of, is_op, replaced_by, size_along


class _ConcatOperands(PatternOptimization):
    """Base of the patterns that replace operands of a Concat."""

    anchors = ("Concat",)


class ConcatConcatPattern(_ConcatOperands):
    """Concat(..., Concat(a, b), ...) → Concat(..., a, b, ...)

    What: concatenates all operands at once.
    Why: the operands of the inner Concat are copied once instead of twice.
    Refuses when:
    1. the inner Concat is along another axis, or the two axes have different signs and the rank is
       unknown.
    2. the inner result has other consumers, or the outer Concat reads it twice. The inner Concat
       would stay, or its operands would be copied twice.
    """

    near = ("Concat",)
    radius = 2

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        inner = [producer for name in node.input if (producer := g.node_before(name)) is not None]
        inner = [
            producer
            for producer in inner
            if producer.op_type == "Concat"
            and not producer.domain
            and self._fits(g, producer, node)
        ]
        if not inner:
            return self.none(
                node, msg="no operand is a Concat along the same axis without other consumers"
            )
        parts = {producer.output[0]: producer.input for producer in inner}
        inputs = [part for name in node.input for part in parts.get(name, (name,))]
        return MatchResult(
            self, [*inner, node], replaced_by("Concat", *inputs, axis=g.get_attribute(node, "axis"))
        )

    def _fits(self, g: GraphView, inner: Node, outer: Node) -> bool:
        a, b = (g.get_attribute(node, "axis") for node in (inner, outer))
        if not isinstance(a, int) or not isinstance(b, int):
            return False
        rank = g.info(inner.output[0]).rank or g.info(outer.output[0]).rank or 0
        # (1)
        same = a == b or (bool(rank) and normalized(a, rank) == normalized(b, rank) is not None)
        return same and g.is_exclusive(inner.output[0])  # (2)

    examples = Example.only(
        "agraph (float[2,b] x, float[2,c] z) => (float[2,d] y) "
        "{ t = Concat <axis = -1> (z, x) y = Concat <axis = 1> (x, t, z) }",
        "{ y = Concat <axis = 1> (x, z, x, z) }",
    )


class ConcatEmptyPattern(_ConcatOperands):
    """Concat(a, empty, b) → Concat(a, b), or a if no other operand remains

    What: drops operands of size 0 along the axis of the Concat.
    Why: the producers of empty operands are then not needed. A Concat of one operand is a copy.
    Refuses when:
    1. no operand is known to have size 0 along the axis.
    2. all operands have size 0: one must stay to give the result its shape.
    3. the shapes of the operands are unknown, or differ along other axes.
    """

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        axis = axis_of(g, node)
        if axis is None or not agree_elsewhere(g, node.input, axis):  # (3)
            return self.none(node, msg="the shapes are unknown or differ")
        operands = [name for name in node.input if size_along(g, name, axis) != 0]
        if not 0 < len(operands) < len(node.input):  # (1) (2)
            return self.none(
                node, msg="no operand is known to have size 0 along the axis, or all have"
            )
        op_type, attributes = ("Concat", node.attribute) if len(operands) > 1 else ("Identity", {})
        return MatchResult(self, [node], replaced_by(op_type, *operands, **attributes))

    examples = Example.only(
        "agraph (float[a,0,4] x, float[a,b,4] z) => (float[a,b,4] y) { "
        "c = Concat <axis = -2> (x, z) y = Neg(c) }",
        "{ y = Neg(z) }",
    )


class SplitConcatPattern(_ConcatOperands):
    """Concat(..., a, b, c, ...) of (a, b, c) = Split(x) → Concat(..., x, ...), or x

    What: reads x instead of all its parts, if the parts are adjacent and in order.
    Why: the Split and the Concat each copy the tensor.
    Refuses when:
    1. a part is missing or out of order.
    2. the axes differ or cannot be compared. Or the shapes of the other operands are unknown, or
       differ along another axis.
    """

    near = ("Split",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        axis = axis_of(g, node)
        inputs: list[str] = []
        splits: list[Node] = []
        index = 0
        while axis is not None and index < len(node.input):
            split = self._split_at(g, node.input, index, axis)
            inputs.append(node.input[index] if split is None else split.input[0])
            index += 1 if split is None else len(split.output)
            splits += [] if split is None else [split]
        if not splits:
            return self.none(node, msg="no adjacent operands are all the outputs of a Split")
        if len(inputs) > 1 and not agree_elsewhere(g, node.input, axis or 0):  # (2)
            return self.none(
                node, msg="the operands' shapes are unknown or differ along other axes"
            )
        return MatchResult(self, [*dict.fromkeys(splits), node], partial(self._joined, inputs))

    def _split_at(self, g: GraphView, names: Sequence[str], index: int, axis: int) -> Node | None:
        """The Split along ``axis`` whose outputs are the operands from ``index`` on, in order."""
        split = g.node_before(names[index])
        if not is_op(split, "Split") or split.output[0] != names[index]:
            return None
        fits = tuple(names[index : index + len(split.output)]) == tuple(split.output)  # (1)
        return split if fits and axis_of(g, split) == axis else None  # (2)

    def _joined(self, inputs: list[str], g: PatternRewriter, *nodes: Node) -> list[Node]:
        """The new Concat, and the Splits that other consumers still read."""
        *splits, node = nodes
        remaining = set(inputs)
        remaining_splits = [
            split
            for split in splits
            if not all(
                g.is_used_only_by(name, node) and name not in remaining for name in split.output
            )
        ]
        joined = g.make_node("Concat", inputs, node.output, **node.attribute)
        return [
            *remaining_splits,
            joined if len(inputs) > 1 else g.make_node("Identity", inputs, node.output),
        ]

    examples = Example.pairs(
        "agraph (float[6,a] x) => (float[6,a] y) <int64[2] n = {2, 4}> "
        "{ p, q = Split(x, n) c = Concat <axis = 0> (p, q) y = Relu(c) }",
        "{ y = Relu(x) }",
        "agraph (float[4,6] x, float[4,b] z) => (float[4,c] y) <int64[2] n = {2, 4}> "
        "{ p, q = Split <axis = 1> (x, n) y = Concat <axis = -1> (z, p, q) }",
        "{ y = Concat <axis = -1> (z, x) }",
    )


class ConcatSplitPattern(_ConcatOperands):
    """Split(Concat(a, b), sizes of a and b) → a, b

    What: replaces the outputs of the Split by the operands of the Concat.
    Why: the Concat and the Split each copy the tensor.
    Refuses when:
    1. the axes differ. Or the shapes of the operands are unknown, or differ along another axis.
    2. the number of outputs differs from the number of operands, or an output may have another size
       along the axis than its operand.
    """

    anchors = ("Split",)
    near = ("Concat",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        concat = g.node_before(node.input[0])
        if not is_op(concat, "Concat"):
            return self.none(node, msg="the operand is not a Concat")
        axis = axis_of(g, node)
        # (1)
        if axis is None or axis != axis_of(g, concat) or not agree_elsewhere(g, concat.input, axis):
            return self.none(
                node, msg="the axes differ, or the operands' shapes are unknown or do not match"
            )
        pairs = list(zip(concat.input, node.output, strict=False))
        lengths = [(size_along(g, a, axis), size_along(g, b, axis)) for a, b in pairs]
        # (2)
        if len(concat.input) != len(node.output) or any(a is None or a != b for a, b in lengths):
            return self.none(
                node, msg="the outputs of the Split are not the operands of the Concat"
            )
        return MatchResult(self, [node], partial(self._read, pairs))

    def _read(self, pairs: Sequence[tuple[str, str]], g: PatternRewriter, node: Node) -> list[Node]:
        """Identity nodes, which redirect the consumers of the outputs to the operands."""
        return [g.make_node("Identity", [a], [b]) for a, b in pairs if b]

    examples = Example.only(
        "agraph (float[a,2] x, float[a,3] z) => (float[a,2] y, float[a,3] w) <int64[2] n = {2, 3}> "
        "{ c = Concat <axis = -1> (x, z) p, q = Split <axis = 1> (c, n) y = Neg(p) w = Relu(q) }",
        "{ y = Neg(x) w = Relu(z) }",
    )
