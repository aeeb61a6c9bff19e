"""Input dimensions that must be equal, whatever their names, for MatMul and Gemm to run."""

from collections.abc import Iterator, Mapping

from xoptim.facts.dims import Dim, substitute
from xoptim.facts.shapes import Info
from xoptim.facts.symbolic import SymbolicDim, bounds, is_nonnegative, named
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.walk import reads


def equal_sizes(graph: Graph) -> dict[str, Dim]:
    """The sizes that input dimensions must have, by name: numbers or expressions in other names."""
    order = {name: place for place, name in enumerate(_declared(graph))}
    sizes: dict[str, Dim] = {}
    differing = [
        (node, pair)
        for node in graph.nodes
        for pair in _pairs(graph, node)
        if pair[0] is not pair[1]
    ]
    needed = _needed(graph) if differing else ()
    for node, pair in differing:
        first, second = (substitute(dim, sizes) for dim in pair) if sizes else pair
        solution = _solved(first - second, order) if node in needed else None
        if solution is not None:
            replacement = _replacement(*solution)
            sizes = {
                name: substitute(dim, replacement) for name, dim in sizes.items()
            } | replacement
    return sizes


def _replacement(symbol: SymbolicDim, size: Dim) -> dict[str, Dim]:
    """The replacement of a symbol by a size; a size that is a symbol gets the limits of both."""
    if not isinstance(size, SymbolicDim) or not size.is_symbol:
        return {str(symbol): size}
    (lower, upper), (low, high) = bounds(symbol), bounds(size)
    limits = (
        [limit for limit in (lower, low) if limit is not None],
        [limit for limit in (upper, high) if limit is not None],
    )
    common = (max(limits[0]), min(limits[1]))
    if common == (low, high) or common[0] > common[1]:
        return {str(symbol): size}
    dim = named(str(size), common)
    return {str(symbol): dim, str(size): dim}


def with_sizes(info: Info, sizes: Mapping[str, Dim]) -> Info:
    """The facts with the names of dimensions replaced by ``sizes``."""
    if not info.is_tensor or info.shape is None:
        return info
    return Info(info.dtype, tuple(substitute(dim, sizes) for dim in info.shape), info.data)


def _declared(graph: Graph) -> dict[str, None]:
    """The names of the sizes of the inputs, in order."""
    dims = (
        dim for info in graph.declared_inputs.values() if info.is_tensor for dim in info.shape or ()
    )
    return {
        str(dim): None
        for dim in dims
        if isinstance(dim, SymbolicDim) and dim.is_symbol and not dim.is_anonymous
    }


def _pairs(graph: Graph, node: Node) -> Iterator[tuple[Dim, Dim]]:
    """The inner dimensions of the two operands of a MatMul or Gemm."""
    if node.domain or node.op_type not in ("MatMul", "Gemm") or len(node.input) < 2:
        return
    a, b = (graph.info_of(name).shape for name in node.input[:2])
    if not a or not b:
        return
    if node.op_type == "MatMul":
        yield a[-1], b[-2] if len(b) > 1 else b[0]
    elif len(a) == len(b) == 2:
        yield (
            a[0 if node.get_attribute("transA", 0) else 1],
            b[1 if node.get_attribute("transB", 0) else 0],
        )


def _solved(difference: Dim, order: Mapping[str, int]) -> tuple[SymbolicDim, Dim] | None:
    """The last input dimension that can make the difference 0, and the size that does so."""
    names = difference.symbols & order.keys() if isinstance(difference, SymbolicDim) else ()
    # symbols that are not input dimensions depend on values
    if isinstance(difference, int) or len(names) != len(difference.symbols):
        return None
    for name in sorted(names, key=lambda name: -order[name]):
        symbol = difference.symbol(name)
        for size in () if symbol is None else (symbol - difference, symbol + difference):
            if (
                symbol is not None
                and is_nonnegative(size)
                and (isinstance(size, int) or name not in size.symbols)
            ):
                return symbol, size
    return None


def _needed(graph: Graph) -> set[Node]:
    """The nodes on which outputs depend: runtimes may never run the other nodes."""
    names, needed = set(graph.outputs), set[Node]()
    for node in reversed(list(graph.nodes)):
        if not names.isdisjoint(node.output):
            needed.add(node)
            names.update(reads(node))
    return needed
