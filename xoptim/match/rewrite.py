"""What every rewrite says about itself, and the rewrites that change a whole model at once.

`Rewrite` has two siblings: `xoptim.match.pattern.PatternOptimization`, which matches around a node and is applied there, and
`ModelPass`, which runs over a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from xoptim.facts.dtypes import Exactness
from xoptim.graph.model import Model

Phase = Literal["canonicalize", "specialize", "target", "final"]
PHASES: tuple[Phase, ...] = get_args(Phase)
"""In the order in which they run."""
Status = Literal["stable", "preview", "deprecated"]
STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True, slots=True)
class Example:
    """A tiny model before and after a rewrite: a picture in the documentation and a test.

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


class Rewrite:
    """A change of a model that keeps what it computes: selected, listed, timed and dropped by its name and metadata.

    Class attributes:
        phase: when it runs: ``canonicalize``, ``specialize`` (both portable), ``target`` (operators of one runtime) or
            ``final``. The passes of a phase run before its patterns.
        before: names of rewrites of the same kind and phase, with or without the suffix ``Pattern``, that come after it,
            whatever priority and name say.
        priority: within a phase, higher numbers run once lower ones have nothing left to do.
        exactness: ``exact`` (bit-identical), ``rounding`` (differs by rounding; a zero may change its sign), ``finite``
            (assumes no NaN, infinity or -0), ``approximate``.
        min_opset, max_opset: versions of the standard operator set it may be used with.
        produces: domains of the operators it creates, other than the standard one.
        unchecked: operators that it writes in the standard domain although the standard does not have them: the runtime
            knows them, ``onnx.checker`` refuses the model.
        providers: execution providers it was measured to pay for; all when empty.
        tags: words to select it by. A rewrite with the tag ``onnxruntime`` belongs to that preset, one with ``extra`` to
            no preset.
        status: ``stable``, ``preview`` or ``deprecated``.
        former_names: earlier names; it is still found by them, with a warning.
    """

    phase: ClassVar[Phase] = "canonicalize"
    before: ClassVar[tuple[str, ...]] = ()
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

    @classmethod
    def name(cls) -> str:
        """The word by which it is selected: the class name without ``Pattern``."""
        return cls.__name__.removesuffix("Pattern")

    @classmethod
    def family(cls) -> str:
        """The package that holds its module, by which rewrites are grouped; outside of packages, the module itself."""
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

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class ModelPass(Rewrite):
    """A rewrite that runs over a model: folding, merging, cleaning, navigators, global rewriters.

    One that is selected keeps nothing of a run: one instance serves every model.
    """

    def run(self, model: Model) -> int:
        """Change a model in place.

        Args:
            model: the model; every change of it leaves it valid.

        Returns:
            Number of changes, 0 when the model is as it was.
        """
        raise NotImplementedError(f"{type(self).__name__} has no run")
