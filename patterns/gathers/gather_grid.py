from functools import partial

from xoptim.facts.dims import is_nonzero
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._grids import Sizes, computed_sizes, counted_axis, write_sizes
from .._nodes import is_op
from .._shapes import is_given_size


class GatherGridPattern(PatternOptimization):
    """Gather(Flatten(x), i · m + j) → Unsqueeze(x), for all positions (i, j) of a matrix x with m columns

    What: recognizes positions that Range, Mul and Add make, in order, and takes the matrix itself, or its first columns.
    Why: this is how torch's tracing exporter writes ``x[rows, columns]``, in the masks of transformers: eleven nodes.
    Refuses when:
    1. x is not flattened to one axis, but for an axis of size 1 after it, or is not a matrix; or Gather takes another axis.
    2. the indices are not known to be i · m + j, each counted from 0 along an axis of its own, in this order.
    3. the rows are not known to be those of x, or the columns have another number, or another axis is longer than 1. (Where
       the number of columns is open, more of them than x has are an error in the original: the last one is outside of x.)
    4. there may be no positions, or the number of columns is not computed.
    """

    anchors = ("Gather",)
    near = ("Flatten", "Reshape")
    min_opset = 11
    radius = 8

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        flat = g.node_before(node.input[0])
        source = g.try_infer_shape(flat.input[0]) if is_op(flat, "Flatten", "Reshape") else None
        joined, shape = (g.try_infer_shape(name) for name in node.input)
        if flat is None or source is None or len(source) != 2 or joined is None or node.attribute.get("axis", 0):
            return self.none(node, msg="the operand is not a flattened matrix")  # (1)
        if joined != (source[0] * source[1], *[1] * (len(joined) - 1)):  # (1)
            return self.none(node, msg="the operand is not flattened to one axis")
        axes = self._counted(g, node.input[1], source[1])
        if axes is None or shape is None:  # (2)
            return self.none(node, msg="the indices are not known to count the elements")
        ones = [axis for axis in range(len(shape)) if axis not in axes]
        rows, columns = (shape[axis] for axis in axes)
        is_part = columns != source[1]
        if rows != source[0] or any(shape[axis] != 1 for axis in ones) or (is_part and isinstance(source[1], int)):
            return self.none(node, msg="the indices may be others than all positions")  # (3)
        ends = computed_sizes(g, node, (columns,)) if is_part else ()
        if ends is None or (is_part and not all(is_nonzero(size) or is_given_size(g, size) for size in (rows, columns))):
            return self.none(node, msg="there may be no positions, or the columns are not counted")  # (4)
        ones = [*ones, *range(len(shape), len(shape) + len(joined) - 1)]
        return MatchResult(self, [node], partial(self._matrix, flat.input[0], ones, ends, axes[1]))

    @staticmethod
    def _counted(g: GraphView, name: str, columns: object) -> tuple[int, int] | None:
        """The axes along which rows and columns count."""
        total, rank = g.node_before(name), g.info(name).rank
        if rank is None or not is_op(total, "Add"):
            return None
        for rows, place in (total.input, total.input[::-1]):
            product = g.node_before(rows)
            for row, factor in (product.input, product.input[::-1]) if is_op(product, "Mul") else ():
                known = g.info(factor).data or g.get_ints(factor)
                first, second = _axis(g, row, rank), _axis(g, place, rank)
                if first is None or second is None or known is None:
                    continue
                if first < second and tuple(known) == (columns,):
                    return first, second
        return None

    def _matrix(self, source: str, ones: list[int], ends: Sizes, axis: int, g: PatternRewriter, node: Node) -> list[Node]:
        made = []
        if ones:
            outputs = g.unique_name("unsqueezed") if ends else node.output
            made.append(g.make_node_check_opset("Unsqueeze", [source], outputs, axes=ones))
            source = made[-1].output[0]
        if ends:
            end, nodes = write_sizes(g, ends)
            zero, along = (g.make_initializer("", [value], source="places") for value in (0, axis))
            made += [*nodes, g.make_node("Slice", [source, zero, end, along], node.output)]
        return made or [g.make_node("Identity", [source], node.output)]

    examples = Example.only(
        "agraph (bool[b,s] m) => (bool[b,1,s,1] y) "
        "<int64 o = {0}, int64 i = {1}, int64[2] j = {1, 2}, int64[1] k = {0}> "
        "{ h = Shape(m) n = Gather(h, o) c = Gather(h, i) f = Flatten <axis = 2> (m) "
        "r = Range(o, n, i) u = Unsqueeze(r, j) q = Range(o, c, i) w = Unsqueeze(q, k) "
        "v = Unsqueeze(c, k) p = Mul(u, v) t = Add(p, w) y = Gather(f, t) }",
        "<int64[2] a = {1, 3}> { y = Unsqueeze(m, a) }",
    )


def _axis(g: GraphView, name: str, rank: int) -> int | None:
    """The axis of a result of this rank along which an operand, which is broadcast, counts; None when it does not count."""
    shape = g.try_infer_shape(name)
    axis = None if shape is None else counted_axis(g, name, shape)
    return None if axis is None or shape is None else axis + rank - len(shape)
