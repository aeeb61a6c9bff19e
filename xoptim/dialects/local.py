"""Local rewriters: functions that receive a node and return the results that replace its own."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

from xoptim.facts.errors import Declined, RewriteError
from xoptim.match import GraphView, MatchResult, Node, PatternOptimization, PatternRewriter, Refusal
from xoptim.match.extending import (
    Returned,
    calling_frame,
    camel_case,
    connect,
    is_copy,
    listener,
    pattern_class,
)

Rewritten: TypeAlias = "str | Sequence[str | None] | bool | None"


class LocalView(PatternRewriter):
    """The ``g`` of a local rewriter: the queries and the ``op`` of a `PatternRewriter`, and a way
    to refuse.

    New nodes and constants are in the graph only after the rewriter has been applied.
    """

    __slots__ = ("_pattern", "has_refused")

    def __init__(self, view: GraphView, pattern: str) -> None:
        super().__init__(view.graph, view.provider, cpu=view.cpu)
        self._pattern = pattern
        self.has_refused = False

    def refuse(self, reason: str, node: Node | None = None) -> Returned | None:
        """Refuse with a reason: ``return g.refuse("the axis is not the last one", node)``.

        Args:
            reason: the condition that does not hold.
            node: the node that does not fit.
        """
        listen = listener()
        if listen is not None:
            self.has_refused = True
            frame = calling_frame()
            line = frame.f_lineno
            listen(Refusal(self._pattern, node, reason, frame.f_code.co_filename, line, line))
        return None


class LocalRewriter(PatternOptimization):
    """A pattern made from a function by `local_rewriter`."""

    function: ClassVar[Callable[[LocalView, Node], Rewritten]]

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Call the function, and keep its new nodes for `apply`."""
        view = LocalView(g, self.name())
        try:
            value = type(self).function(view, node)
        except Declined as error:  # raised by a call of `g` that does not apply here
            view.refuse(str(error), node)
            value = None
        results = _results(value, node)
        # Returning the results of the node itself would match again for ever.
        new_names = {name for new in view.created for name in new.output}
        is_same = results == node.output or (is_copy(node) and results == node.input)
        if results is None or (is_same and new_names.isdisjoint(results)):
            if not view.has_refused:
                self._nothing_to_do(node)
            return None
        match = MatchResult(self, [node], lambda g, node: connect(g, results, node.output))
        match.edit = view.edit
        return match

    def _nothing_to_do(self, node: Node) -> None:
        listen = listener()
        if listen is not None:
            code = getattr(type(self).function, "__code__", None)
            file, line = (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)
            listen(Refusal(self.name(), node, "the function does not apply here", file, line))


def _results(value: Any, node: Node) -> tuple[str | None, ...] | None:
    """The return value of a function, as one result for each of the node's.

    ``None`` for a refusal.
    """
    if value is None or value is False:
        return None
    results = (value,) if isinstance(value, str) else value
    if not isinstance(results, (list, tuple)) or not all(
        name is None or isinstance(name, str) for name in results
    ):
        raise TypeError(
            f"a local rewriter must return names of results, None or False, not {value!r}"
        )
    if len(results) != len(node.output):
        raise RewriteError(
            f"a {node.op_type} with {len(node.output)} results cannot be replaced by {len(results)}"
        )
    return tuple(results)


def local_rewriter(
    operators: str | Sequence[str], *, name: str = "", **metadata: Any
) -> Callable[[Callable[..., Rewritten]], type[LocalRewriter]]:
    """Turn a function into a pattern that is tried at the nodes of some operators.

    The function is called as ``f(g, node)``, where ``g`` is a `LocalView`. To refuse, the function
    returns ``False`` or ``None``; ``return g.refuse("why", node)`` gives a reason. To rewrite, it
    returns the names of the results that replace those of the node, or the only name. They are
    names of existing results or those that ``g.op.Mul(x, y)`` returns; ``None`` stands for a
    result that nothing reads.

    Args:
        operators: one or several, as ``"Div"`` or ``"acme::Foo"``.
        name: of the class; by default, made from the function's.
        **metadata: class attributes of `PatternOptimization`, and ``examples``. The exactness is
            ``rounding`` unless given.

    Raises:
        TypeError: when no operator is given, or a class attribute is unknown.
    """
    anchors = (
        (operators,)
        if isinstance(operators, str)
        else tuple(operators)
        if not callable(operators)
        else ()
    )
    if not anchors or not all(isinstance(anchor, str) and anchor for anchor in anchors):
        raise TypeError('a local rewriter names the operators of its nodes: @local_rewriter("Div")')

    def decorate(function: Callable[..., Rewritten]) -> type[LocalRewriter]:
        members = {"anchors": anchors, "function": staticmethod(function)}
        title = name or camel_case(function.__name__)
        return pattern_class(
            LocalRewriter, title, function.__module__, function.__doc__ or "", metadata, members
        )

    return decorate
