"""The base of all patterns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, get_args

from xoptim.facts.dtypes import Exactness
from xoptim.graph.node import Node
from xoptim.match.refusal import Refusal, listener
from xoptim.match.result import MatchResult, checked

if TYPE_CHECKING:
    from xoptim.match.view import GraphBuilderPatternOptimization, PatternRewriter

Refused = TypeVar("Refused")
"""The type that the refusing function returns on success."""
Key = tuple[str, str]
"""Domain and operator."""
Phase = Literal["canonicalize", "specialize", "target"]
PHASES: tuple[Phase, ...] = get_args(Phase)
Status = Literal["stable", "preview", "deprecated"]
STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True, slots=True)
class Example:
    """A tiny model before and after a pattern: a picture in the documentation and a test.

    Attributes:
        before: the graph in ONNX's textual syntax, ``agraph (float[n] x) => (float[n] y) { ... }``.
        after: the expected graph in the same syntax; names of results in between do not matter.
        opset: version of the standard operator set.
        domains: versions of other operator sets.
        ranges: lowest and highest value of the feeds of some inputs, where random numbers would not do.
    """

    before: str
    after: str
    opset: int = 18
    domains: tuple[tuple[str, int], ...] = ()
    ranges: tuple[tuple[str, float, float], ...] = ()


class PatternOptimization:
    """A rewrite: where it applies (`match`) and what it does there (`apply`).

    Patterns hold no state: the findings of `match` are in the `MatchResult`.

    Class attributes:
        anchors: operators at which `match` is worth calling (``"domain::Op"`` outside the standard domain); every node is
            offered when empty.
        near: operators, one of which must produce an input of the anchor; any when empty.
        phase: when it runs.
        priority: within a phase, higher numbers run once lower ones have nothing left to do.
        exactness: ``exact`` (bit-identical), ``rounding`` (differs by rounding; a zero may change its sign), ``finite``
            (assumes no NaN, infinity or -0), ``approximate``.
        min_opset, max_opset: versions of the standard operator set it may be used with.
        produces: domains of the operators it creates, other than the standard one.
        unchecked: operators that it writes in the standard domain although the standard does not have them: the runtime
            knows them, ``onnx.checker`` refuses the model.
        providers: execution providers it was measured to pay for; all when empty.
        tags: words to select it by. A pattern with the tag ``onnxruntime`` belongs to that preset, one with ``extra`` to
            no preset.
        status: ``stable``, ``preview`` or ``deprecated``.
        former_names: earlier names; it is still found by them, with a warning.
        radius: how many nodes away from the anchor a change may make it match.
    """

    anchors: ClassVar[tuple[str, ...]] = ()
    near: ClassVar[tuple[str, ...]] = ()
    phase: ClassVar[Phase] = "canonicalize"
    priority: ClassVar[int] = 0
    exactness: ClassVar[Exactness] = "exact"
    min_opset: ClassVar[int] = 1
    max_opset: ClassVar[int | None] = None
    produces: ClassVar[tuple[str, ...]] = ()
    unchecked: ClassVar[tuple[str, ...]] = ()
    providers: ClassVar[tuple[str, ...]] = ()
    tags: ClassVar[tuple[str, ...]] = ()
    status: ClassVar[Status] = "stable"
    former_names: ClassVar[tuple[str, ...]] = ()
    radius: ClassVar[int] = 3

    @classmethod
    def name(cls) -> str:
        """The word by which it is selected: the class name without ``Pattern``."""
        return cls.__name__.removesuffix("Pattern")

    @classmethod
    def family(cls) -> str:
        """The package that holds its module, by which patterns are grouped; outside of packages, the module itself."""
        return cls.__module__.rpartition(".")[0].rpartition(".")[2] or cls.__module__

    @classmethod
    def arrow(cls) -> str:
        """First line of the docstring: the subgraph, an arrow, and the replacement."""
        return (cls.__doc__ or "").strip().split("\n", 1)[0]

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Tiny models before and after."""
        return ()

    def unfit_for(self, opset: int | None, provider: str = "") -> tuple[str, str] | None:
        """Why it may not be used, and the class attribute that says so; ``None`` when it may.

        Args:
            opset: version of the standard operator set, ``None`` for any.
            provider: execution provider to optimize for, empty for any.
        """
        if opset is not None and opset < self.min_opset:
            return f"min_opset {self.min_opset}, the model has {opset}", "min_opset"
        if opset is not None and self.max_opset is not None and opset > self.max_opset:
            return f"max_opset {self.max_opset}, the model has {opset}", "max_opset"
        if provider and self.providers and provider not in self.providers:
            return f"it is for provider {' or '.join(self.providers)}, not for {provider}", "providers"
        return None

    def anchor_keys(self) -> frozenset[tuple[str, str]]:
        """The `anchors` as ``(domain, op_type)``; empty when every node is to be offered."""
        return frozenset(map(operator_key, self.anchors))

    def near_keys(self) -> frozenset[tuple[str, str]]:
        """Operators, one of which must produce an input of the anchor; empty when any may."""
        return frozenset(map(operator_key, self.near))

    def paths(self) -> frozenset[tuple[Key, tuple[Key, ...]]]:
        """Where it is worth trying: operators of anchors, and operators of what produces an input, an input of that, ..."""
        near = self.near_keys()
        return frozenset((anchor, (key,)) for anchor in self.anchor_keys() for key in near) or frozenset(
            (anchor, ()) for anchor in self.anchor_keys()
        )

    def reach(self) -> int:
        """How many nodes away from the anchor a change may make it match."""
        return self.radius

    def match(self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Look for the pattern around a node. The graph must not be changed.

        Args:
            g: answers questions about the graph.
            node: where to look; one of the `anchors`.
            matched: the matches of this round so far.

        Returns:
            The match, or what `none` returns.
        """
        raise NotImplementedError(f"{type(self).__name__} has no match")

    def match_at(self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Call `match` and check the type of its result; arguments as there.

        Raises:
            TypeError: when it returned something else.
        """
        found = self.match(g, node, matched)
        return None if found is None else checked(found, node)

    def apply(self, g: PatternRewriter, *nodes: Any) -> list[Node]:
        """Make the replacement.

        Args:
            g: answers questions and makes nodes and initializers.
            *nodes: the nodes of the match. Those that are not in the result are removed.

        Returns:
            The nodes that take their place, in an order in which they can run.
        """
        raise NotImplementedError(f"{type(self).__name__} has no apply")

    def none(
        self, node: Node | None = None, lineno: int | None = None, msg: Callable[[], str] | str | None = None
    ) -> Refused | None:
        """Refuse a match: ``return self.none(node, msg="...")``. Costs nothing without a listener.

        Args:
            node: the node that does not fit.
            lineno: line of the condition; found when not given.
            msg: the reason, or a function that makes it.
        """
        listen = listener()
        if listen is None:
            return None
        frame = sys._getframe(1)
        reason = msg() if callable(msg) else msg or ""
        line = lineno or frame.f_lineno
        listen(Refusal(self.name(), node, reason, frame.f_code.co_filename, line, self.progress(line)))
        return None

    def progress(self, line: int) -> int:
        """How far a match had come that is refused at a line: conditions are tried from top to bottom."""
        return line

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def operator_key(anchor: str) -> tuple[str, str]:
    """``"Add"`` or ``"com.microsoft::Gelu"`` as ``(domain, op_type)``."""
    domain, _, op_type = anchor.rpartition("::")
    return domain, op_type
