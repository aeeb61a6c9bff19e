"""Facts that hold for several values at once: branches, iterations, items of a sequence."""

from collections.abc import Callable, Sequence

from xoptim.facts.dims import Dim, is_anonymous
from xoptim.facts.shapes import UNKNOWN, Info, Shape
from xoptim.operators.protocols import NodeContext


def common(ctx: NodeContext, a: Info | None, b: Info | None) -> Info:
    """Return the facts that hold for both values.

    A dimension is kept only where the two are the same.
    """
    return _shared(a, b, lambda x, y: x if x == y else ctx.fresh())


def _shared(a: Info | None, b: Info | None, agreed: Callable[[Dim, Dim], Dim]) -> Info:
    """Return the facts that hold for both values, with the dimensions that ``agreed`` gives for two
    of them.

    The operators that join values require one element type, so a type known on one side counts for
    both.
    """
    if a is b and a is not None:
        return a
    if a is None or b is None or a.container != b.container or a.type_proto != b.type_proto:
        return UNKNOWN
    if a.dtype and b.dtype and a.dtype != b.dtype:
        return UNKNOWN
    element = (
        None if a.element is None or b.element is None else _shared(a.element, b.element, agreed)
    )
    data = a.data if a.data == b.data else None
    shape: Shape | None = None
    if a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape):
        shape = tuple(map(agreed, a.shape, b.shape))
    return Info(a.dtype or b.dtype, shape, data, a.container, element, a.type_proto)


def common_to_all(ctx: NodeContext, infos: Sequence[Info | None]) -> Info:
    """Return the facts that hold for all values, no facts when there are no values."""
    if not infos:
        return UNKNOWN
    result = infos[0] or UNKNOWN
    for info in infos[1:]:
        result = common(ctx, result, info)
    return result


def item_of(ctx: NodeContext, element: Info | None) -> Info:
    """One item of a sequence: a dimension that may differ from item to item gets a new symbol."""
    if element is None:
        return UNKNOWN
    shape = element.shape
    if shape is not None:
        shape = tuple(ctx.fresh() if is_anonymous(d) else d for d in shape)
    inner = None if element.element is None else item_of(ctx, element.element)
    return Info(element.dtype, shape, None, element.container, inner, element.type_proto)


class Invariant:
    """Facts about the values that a loop carries, weakened until every iteration keeps them.

    The facts hold at the start of each iteration. Dimensions that change are symbols of this loop.
    """

    def __init__(self, ctx: NodeContext, initial: Sequence[Info | None]) -> None:
        self._ctx = ctx
        self._varying: set[Dim] = set()
        self.infos: list[Info] = [info or UNKNOWN for info in initial]

    def admit(self, after: Sequence[Info]) -> bool:
        """Weaken to the facts that also hold ``after`` an iteration.

        Returns whether anything changed.
        """
        before = self.infos
        self.infos = [
            _shared(info, after[i] if i < len(after) else UNKNOWN, self._dim)
            for i, info in enumerate(before)
        ]
        return self.infos != before

    def forget(self, *, dtypes: bool) -> None:
        """Drop the shapes of the values or, with ``dtypes``, all facts."""
        self.infos = [
            UNKNOWN if dtypes or info.container else Info(info.dtype) for info in self.infos
        ]

    def results(self) -> list[Info]:
        """Return the facts that hold after any number of iterations, zero included."""
        return [self._settled(info) for info in self.infos]

    def _dim(self, old: Dim, new: Dim) -> Dim:
        """The dimension, or a symbol of this loop for one that changes."""
        if old == new or old in self._varying:
            return old
        self._varying.add(symbol := self._ctx.fresh())
        return symbol

    def _settled(self, info: Info) -> Info:
        if info.shape is None or not any(d in self._varying for d in info.shape):
            return info
        # The symbols of the invariant hold at the start of one iteration; after the last one the
        # sizes may differ.
        shape = tuple(self._ctx.fresh() if d in self._varying else d for d in info.shape)
        return Info(info.dtype, shape, info.data, info.container, info.element, info.type_proto)
