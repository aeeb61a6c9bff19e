"""Passes written by users: functions and classes that change a complete model."""

from collections.abc import Callable
from typing import Any, ClassVar

from xoptim.graph.model import Model, watching
from xoptim.match.making import camel_case, pattern_class
from xoptim.match.rewrite import ModelPass
from xoptim.optimizing.builder import GraphBuilder


class GlobalRewriter(ModelPass):
    """A pass that changes a model through a `GraphBuilder`."""

    def run(self, model: Model) -> int:
        """Call `rewrite` with a builder of the model; returns the number of rewrites."""
        return self.rewrite(GraphBuilder.of(model))

    def rewrite(self, builder: GraphBuilder) -> int:
        """Change a model. Returns the number of rewrites.

        ``builder``: a builder of the model that is optimized, with default options.
        """
        raise NotImplementedError(f"{type(self).__name__} has no rewrite")


class FunctionRewriter(GlobalRewriter):
    """A rewriter made from a function by `global_rewriter`."""

    function: ClassVar[Callable[[GraphBuilder], int | None]]

    def rewrite(self, builder: GraphBuilder) -> int:
        """Call the function; when it does not return a count, all its changes are one rewrite."""
        with watching(builder.model) as changes:
            count = type(self).function(builder)
        if count is not None and not isinstance(count, int):
            raise TypeError(
                f"a global rewriter must return the number of rewrites or None, not {count!r}"
            )
        return int(changes.count > 0) if count is None or isinstance(count, bool) else count


def global_rewriter(
    *, name: str = "", **metadata: Any
) -> Callable[[Callable[..., int | None]], type[GlobalRewriter]]:
    """Make a pass from a function that changes an `xoptim.GraphBuilder`.

    The function is called with the builder and returns how many rewrites it made. For ``None``,
    ``True`` and ``False``, the optimizer checks whether the model changed. Raises `TypeError` when
    a class attribute is unknown, or has an invalid value.

    Args:
        name: name of the class; made from the name of the function when empty.
        **metadata: class attributes of `xoptim.Rewrite`, such as ``phase``, and ``examples``. The
            exactness is ``rounding`` unless given.
    """

    def decorate(function: Callable[..., int | None]) -> type[GlobalRewriter]:
        title = name or camel_case(function.__name__)
        members = {"function": staticmethod(function)}
        return pattern_class(
            FunctionRewriter, title, function.__module__, function.__doc__ or "", metadata, members
        )

    return decorate
