"""The metadata of all rewrites, the rewrites that run over a model, and the conditions that these
require and ensure.

`Rewrite` has two subclasses: `xoptim.match.pattern.PatternOptimization`, which matches around a
node and is applied there, and `ModelPass`, which runs over a model.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

from xoptim.facts.dtypes import Exactness
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node

Condition: TypeAlias = Literal["defined", "used", "stored"]


def _undefined(graph: Graph) -> Iterator[str]:
    names = {""}
    for node in graph.nodes:
        for name in node.input:
            if name not in names:
                if graph.producer(name) is not None or graph.scope(name) is None:
                    yield f"{name!r} is read before it is defined"
                names.add(name)
        names.update(node.output)
    yield from (
        f"output {name!r} is not defined" for name in graph.outputs if graph.scope(name) is None
    )


def _unused(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        if node.output and not graph.is_node_needed(node):
            yield f"nothing reads {node.output[0]!r}"
    yield from _unread(graph)


def _unread(graph: Graph) -> Iterator[str]:
    for name in graph.initializers:
        if not graph.is_needed(name) and name not in graph.overridable:
            yield f"nothing reads the initializer {name!r}"


CONDITIONS: Final[Mapping[Condition, Callable[[Graph], Iterator[str]]]] = {
    "defined": _undefined,
    "used": _unused,
    "stored": _unread,
}
"""For each condition, the function that yields its violations in a graph.

- ``defined``: values are defined before they are read.
- ``used``: something reads every node and initializer.
- ``stored``: something reads every initializer.
"""


def unmet(model: Model, conditions: Iterable[Condition]) -> str:
    """The first violation of some conditions, empty when they hold."""
    for violations in map(CONDITIONS.__getitem__, conditions):
        for graph in model.graphs():
            for text in violations(graph):
                return text
    return ""


Phase = Literal["canonicalize", "specialize", "target", "final", "lower"]
PHASES: tuple[Phase, ...] = get_args(Phase)
"""The phases in the order in which they run."""
_USUAL_DOMAINS: Final = ("com.microsoft", "ai.onnx.ml")
_SECTIONS: Final = ("What", "Why", "Refuses when")
Status = Literal["stable", "preview", "deprecated"]
STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True, slots=True)
class Example:
    """A small model before and after a rewrite, used as documentation and as a test.

    Attributes:
        before: the graph in ONNX's textual syntax, ``agraph (float[n] x) => (float[n] y) { ... }``.
        after: the expected graph in the same syntax; names of interior results are ignored. Without
            ``agraph ... =>``, it has the inputs and outputs of ``before``.
        opset: version of the standard operator set.
        domains: versions of other operator sets; 1 for ``com.microsoft`` and ``ai.onnx.ml`` where
            the graphs use these.
        ranges: name, lowest and highest value of inputs for which other random numbers are invalid.
    """

    before: str
    after: str
    opset: int = 18
    domains: tuple[tuple[str, int], ...] = ()
    ranges: tuple[tuple[str, float, float], ...] = ()

    def __post_init__(self) -> None:
        if self.after.startswith(("{", "<")):
            head, *_ = re.split(r" (?=[{<])", self.before, maxsplit=1)
            object.__setattr__(self, "after", f"{head} {self.after}")
        domains = {
            name: 1
            for name in _USUAL_DOMAINS
            if f"{name}." in self.before or f"{name}." in self.after
        }
        object.__setattr__(self, "domains", tuple({**domains, **dict(self.domains)}.items()))

    @classmethod
    def only(cls, before: str, after: str, **others: Any) -> "tuple[Example]":
        """The ``examples`` of a rewrite with one example; the parameters are its attributes."""
        return (cls(before, after, **others),)

    @classmethod
    def pairs(cls, *texts: str, **others: Any) -> "tuple[Example, ...]":
        """Several ``examples``: before and after of each in turn.

        The other attributes are the same for all.
        """
        return tuple(
            cls(before, after, **others)
            for before, after in zip(texts[::2], texts[1::2], strict=True)
        )


class Rewrite:
    """A change of a model that preserves its results: selected, listed, timed and dropped by name
    and metadata.

    Class attributes:
        phase: when it runs: ``canonicalize``, ``specialize`` (both portable), ``target`` (operators
            of one runtime), ``final``, or ``lower`` (an operator into simpler ones, for a runtime
            that lacks it: in no preset, and after all other patterns, which would undo it). The
            passes of a phase run before its patterns.
        before: names of rewrites of the same kind and phase, with or without the suffix
            ``Pattern``, that run after this one, in spite of their priorities and names; each with
            the reason, or a tuple of names.
        after: the same for rewrites that run before this one.
        priority: within a phase, higher numbers run when lower ones have no match left.
        exactness: ``exact`` (bit-identical), ``rounding`` (differs by rounding; a zero may change
            its sign), ``finite`` (assumes no NaN, infinity or -0), ``approximate``.
        integer_steps: number of steps by which quantized results may differ, as kernels round a
            number halfway between two integers to either of them.
        min_opset, max_opset: lowest and highest version of the standard operator set.
        produces: domains, other than the standard one, of the operators that it creates.
        unchecked: operators that it writes in the standard domain although the standard does not
            define them: the runtime runs them, ``onnx.checker`` refuses the model.
        providers: execution providers on which it was measured to be faster; all when empty.
        onnxruntime: the versions of onnxruntime with the defect that it works around, such as
            ``"<1.33"``; empty for any other rewrite. It runs with other versions as well.
        tags: words that select it. A rewrite with the tag ``onnxruntime`` belongs to that preset,
            one with ``extra`` to no preset.
        status: ``stable``, ``preview`` or ``deprecated``.
        former_names: earlier names, which still select it, with a warning.
        examples: tiny models before and after.
    """

    phase: ClassVar[Phase] = "canonicalize"
    before: ClassVar[Mapping[str, str] | tuple[str, ...]] = ()
    after: ClassVar[Mapping[str, str] | tuple[str, ...]] = ()
    priority: ClassVar[int] = 0
    exactness: ClassVar[Exactness] = "exact"
    integer_steps: ClassVar[int] = 0
    min_opset: ClassVar[int] = 1
    max_opset: ClassVar[int | None] = None
    produces: ClassVar[tuple[str, ...]] = ()
    unchecked: ClassVar[tuple[str, ...]] = ()
    providers: ClassVar[tuple[str, ...]] = ()
    onnxruntime: ClassVar[str] = ""
    tags: ClassVar[tuple[str, ...]] = ()
    status: ClassVar[Status] = "stable"
    former_names: ClassVar[tuple[str, ...]] = ()
    examples: ClassVar[Sequence[Example]] = ()

    def __init_subclass__(cls, **others: Any) -> None:
        """Complete the docstring of a rewrite: the sections that it leaves out come from the class
        that it extends.
        """
        super().__init_subclass__(**others)
        doc = cls.__doc__ or ""
        if "→" not in doc or all(f"{name}:" in doc for name in _SECTIONS):
            return
        head, own = _sections(cls)
        inherited = {
            name: text
            for base in reversed(cls.__mro__)
            for name, text in _sections(base)[1].items()
        }
        if "→" in head and own.keys() < inherited.keys():
            texts = [f"{name}:{inherited[name]}" for name in _SECTIONS if name in inherited]
            cls.__doc__ = "\n".join([head, "", *texts])

    @classmethod
    def name(cls) -> str:
        """The name that selects it: the class name without ``Pattern``."""
        return cls.__name__.removesuffix("Pattern")

    @classmethod
    def family(cls) -> str:
        """The package that holds its module, which groups rewrites in listings.

        The module itself outside of packages.
        """
        return cls.__module__.rpartition(".")[0].rpartition(".")[2] or cls.__module__

    @classmethod
    def is_shipped(cls) -> bool:
        """Whether it belongs to the catalogue of xoptim itself."""
        return cls.__module__.startswith("xoptim.patterns.")

    @classmethod
    def arrow(cls) -> str:
        """First paragraph of the docstring: the subgraph, an arrow, and the replacement."""
        first = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0]
        return " ".join(first.split())

    def unfit_for(self, opset: int | None, provider: str = "") -> tuple[str, str] | None:
        """The reason why it cannot be used, and the class attribute that excludes it.

        ``None`` when it can be used. An opset or a provider that is not given excludes nothing.
        """
        if opset is not None and opset < self.min_opset:
            return f"min_opset {self.min_opset}, the model has {opset}", "min_opset"
        if opset is not None and self.max_opset is not None and opset > self.max_opset:
            return f"max_opset {self.max_opset}, the model has {opset}", "max_opset"
        if provider and self.providers and provider not in self.providers:
            return (
                f"it is for provider {' or '.join(self.providers)}, not for {provider}",
                "providers",
            )
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _sections(cls: type) -> tuple[str, dict[str, str]]:
    """The docstring of a class up to its sections What, Why and Refuses when, and their texts by
    name.
    """
    head, *parts = re.split(
        rf"^({'|'.join(_SECTIONS)}):", inspect.cleandoc(cls.__doc__ or ""), flags=re.MULTILINE
    )
    return head.rstrip(), {
        name: text.rstrip() for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


@dataclass(frozen=True, slots=True)
class Finding:
    """Nodes that a pass considers together.

    ``reason`` says why they stay as they are, ``gain`` what rewriting them changes.
    """

    nodes: tuple[Node, ...]
    reason: str = ""
    gain: str = ""


class ModelPass(Rewrite):
    """A rewrite that runs over a model, such as folding, merging or a navigator.

    A selected pass keeps no state of a run: one instance runs on every model.

    Class attributes:
        requires: conditions that hold before it runs, by their names in
            `xoptim.match.rewrite.CONDITIONS`.
        ensures: conditions that hold afterwards.
        is_step: whether it reports its changes itself, and is not counted as a rewrite.
    """

    requires: ClassVar[tuple[Condition, ...]] = ("defined",)
    ensures: ClassVar[tuple[Condition, ...]] = ("defined",)
    is_step: ClassVar[bool] = False

    def run(self, model: Model) -> int:
        """Change a model in place, so that it is valid after every change.

        Returns the number of changes.
        """
        raise NotImplementedError(f"{type(self).__name__} has no run")

    def run_in(self, model: Model, state: Any) -> int:
        """Run as a part of an optimization with a `xoptim.engine.state.State`.

        Returns the number of changes.
        """
        return self.run(model)

    def findings(self, model: Model) -> Sequence[Finding] | None:
        """Nodes that the pass would rewrite, and nodes that it would not, for explanations.

        ``None`` when it does not report them.
        """
        return None


class Step(ModelPass):
    """A pass that belongs to every optimization, with the name ``title``.

    Options decide whether it runs.
    """

    is_step = True
    min_opset = 0
    title: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        """The title."""
        return cls.title
