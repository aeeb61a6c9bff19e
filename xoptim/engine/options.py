"""The options of the optimizer."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import Final, Literal, TypedDict, TypeVar

from xoptim.catalogue.entries import Entry
from xoptim.catalogue.query import Name, Query, Selection
from xoptim.catalogue.registry import registry
from xoptim.catalogue.selection import chosen
from xoptim.engine.environment import DebugSettings, read_environment
from xoptim.engine.events import Application, Event
from xoptim.facts.assumptions import Assumptions
from xoptim.match.rewrite import Rewrite
from xoptim.match.view import CPUS, Cpu
from xoptim.passes.growth import allowed_growth

_SAFE_PRESETS: Final = ("default", "fast_run")
"""Presets that include the patterns of exactness ``finite`` under an assumption ``finite(x)``."""
_STEPS: Final = frozenset(("constant_folding", "merge", "remove_unused", "remove_identity"))
"""Steps that can be dropped by name."""
AnyRewrite = TypeVar("AnyRewrite", bound=Rewrite)


@dataclass(frozen=True, kw_only=True)
class OptimizationOptions:
    """Options of `xoptim.optimize` and of `GraphBuilder.optimize`. Immutable.

    Attributes:
        patterns: selection string, query, list of names, queries, classes or instances, or ``None``
            for no pattern.
        verbose: 1 logs one line per round, 10 and more why each candidate was refused.
        max_iter: maximal number of rounds of a graph; -1 for no limit.
        remove_unused: remove unused nodes and initializers.
        remove_identity: remove Identity nodes.
        constant_folding: compute results that depend on constants only.
        merge: merge equal nodes and equal initializers.
        strategy: which of two overlapping matches is applied: the match of the earlier pattern, or
            the one with more nodes.
        provider: execution provider to optimize for.
        cpu: CPUs on which int8 matrix multiplications must be exact: ``any``, or ``vnni``, CPUs
            with VNNI instructions only, where weights may use all 8 bits. Without VNNI, kernels
            for x86 add two products of uint8 and int8 in 16 bits, which may saturate.
        target: name of the target that the model will run on (see `xoptim.targets`), empty for the
            provider. Patterns that were measured to be faster on other providers only are dropped,
            and operators that the target does not run are lowered.
        strict: raise errors of patterns instead of skipping the pattern with a warning.
        drop: patterns and passes to drop; ``"constant_folding"``, ``"merge"``, ``"remove_unused"``
            and ``"remove_identity"`` are the options of these names.
        assume: assumptions about dimensions and values, such as ``"past >= 1"`` or ``"finite(x)"``,
            in addition to the default set; ``"nothing"`` switches the default set off (see
            `xoptim.facts.assumptions`).
        assume_from_model: also use the assumptions that the author of the model wrote into its
            metadata.
        guard: write nodes that fail in a run that breaks an assumption.
        opset: operator set of ONNX: the model is raised to a newer one first, or lowered to an
            older one after the patterns. ``"newest"`` is the newest one that onnxruntime supports
            for this model (`xoptim.passes.opsets`); ``None`` keeps the operator set of the model.
        outline: replace blocks that repeat along the main graph, such as the layers of a
            transformer, by calls of local functions, after everything else.
        drop_unused_inputs: remove inputs that no node reads in the end. Callers then pass fewer
            values.
        max_growth: bytes that folding may add to the model in all: a number, ``"500kB"``, ``"10%"``
            of the constants of the model, or ``"unlimited"``. By default 10% or 1 MB, whichever
            is more, and no copy of a large constant (such as its transpose) that other nodes read.
        max_rewrites: maximal number of rewrites; -1 for no limit. The first rewrites do not depend
            on the number.
        lower_at: by pattern of the phase ``lower``, the names of the nodes at which it may be
            applied. Other patterns may be applied everywhere.
        skip_at: by pattern, first results of the nodes at which it is not applied.
        tag_nodes: write the name of the pattern into the metadata of its new nodes.
        on_event: called with each event.
        on_application: called after each rewrite.
        debug: debugging settings; read from the environment unless given.
    """

    patterns: Selection = "default"
    verbose: int = 0
    max_iter: int = -1
    max_rewrites: int = -1
    remove_unused: bool = True
    remove_identity: bool = True
    constant_folding: bool = True
    merge: bool = True
    strategy: Literal["priority", "largest"] = "priority"
    provider: str = "cpu"
    cpu: Cpu = "any"
    target: str = ""
    strict: bool = False
    drop: tuple[str, ...] = ()
    assume: Sequence[str] = ()
    assume_from_model: bool = False
    guard: bool = False
    opset: int | Literal["newest"] | None = None
    outline: bool = False
    drop_unused_inputs: bool = False
    max_growth: int | str | None = None
    lower_at: Mapping[str, Collection[str]] = field(default_factory=dict)
    skip_at: Mapping[str, Collection[str]] = field(default_factory=dict)
    tag_nodes: bool = True
    on_event: Callable[[Event], None] | None = None
    on_application: Callable[[Application], None] | None = None
    debug: DebugSettings = field(default_factory=read_environment)

    def __post_init__(self) -> None:
        """Raise ValueError, TypeError or `AssumptionError` for an invalid option."""
        for name in ("max_iter", "max_rewrites"):
            if not isinstance(getattr(self, name), Integral):
                raise TypeError(f"{name} must be an integer, not {getattr(self, name)!r}")
        if self.cpu not in CPUS:
            raise ValueError(f"cpu must be {' or '.join(CPUS)}, not {self.cpu!r}")
        if isinstance(self.drop, str):
            raise ValueError(f"drop must be a sequence of names: ({self.drop!r},)")
        allowed_growth(self.max_growth, 0)
        object.__setattr__(self, "assume", Assumptions.of(self.assume).texts)
        for name in _STEPS.intersection(self.drop):
            object.__setattr__(self, name, False)
        object.__setattr__(self, "drop", tuple(name for name in self.drop if name not in _STEPS))

    def selected(self, assumptions: Assumptions | None = None) -> list[Rewrite]:
        """The patterns and passes, in the order in which they run.

        Raises `UnknownPatternError` when a name is not known.

        ``assumptions`` are about the model, by default the assumptions of the options: where values
        are assumed to be finite, the safe presets include patterns that need finite values.
        """
        return [entry.rewrite for entry in self._entries(assumptions)]

    def scheduled(self, assumptions: Assumptions | None = None) -> list[Rewrite]:
        """As `selected`, with patterns that are imported when they are first tried."""
        return [entry.scheduled for entry in self._entries(assumptions)]

    def _entries(self, assumptions: Assumptions | None) -> list[Entry]:
        debug = self.debug
        premises = Assumptions.of(self.assume) if assumptions is None else assumptions
        query = Query.of(self.patterns)
        if any(word == "finite" for word, _ in premises.values):
            query = query.joining("finite", _SAFE_PRESETS)
        entries = self.kept(query)
        if debug.patterns:  # raises for unknown names
            chosen(self.patterns, (Name(word, "PATTERN") for word in debug.patterns))
        return entries

    def kept(self, patterns: Selection) -> list[Entry]:
        """The rewrites of a selection that fit the provider and the target, in order, without
        dropped ones.
        """
        drops: list[str | Name] = [
            *self.drop,
            *(Name(word, "DROPPATTERN") for word in self.debug.drop),
        ]
        return [entry for entry in chosen(patterns, drops) if self._fits(entry.scheduled)]

    def _fits(self, rewrite: Rewrite) -> bool:
        """Whether a rewrite is for the provider and the target."""
        provider = self.provider_for(rewrite)
        return not rewrite.unfit_for(None, provider) and not self.unfit_there(rewrite)

    def provider_for(self, rewrite: Rewrite | type[Rewrite]) -> str:
        """The target if the rewrite was measured there, else the provider."""
        return self.target if self.target in rewrite.providers else self.provider

    def unfit_there(self, rewrite: Rewrite | type[Rewrite]) -> str:
        """The reason why a rewrite is dropped for the target, empty when it is used there."""
        measured = rewrite.providers
        if self.target in ("", "cpu", *measured) or "cpu" not in measured:
            return ""  # `Rewrite.unfit_for` decides about rewrites that are not for the CPU
        return f"known to be faster on {' and '.join(measured)} only"

    def verbosity(self, rewrite: Rewrite) -> int:
        """Verbosity of the log of a rewrite."""
        levels = self._levels
        return max(self.verbose, self.debug.verbose, levels.get(rewrite.name(), 0) if levels else 0)

    def with_verbosity(self, level: int, rewrites: Iterable[AnyRewrite]) -> Iterator[AnyRewrite]:
        """The rewrites among these whose verbosity is ``level`` or more."""
        # Asking each of hundreds of rewrites would be slow for a small model.
        if self._levels or max(self.verbose, self.debug.verbose) >= level:
            yield from (rewrite for rewrite in rewrites if self.verbosity(rewrite) >= level)

    @cached_property
    def _levels(self) -> dict[str, int]:
        """Verbosity of the rewrites that the environment names, by their current names."""
        names = self.debug.patterns
        explained = {
            *names,
            *(entry.item.name() for name in names for entry in registry().named(name)),
        }
        levels = self.debug.levels
        return {**levels, **{name: max(10, levels.get(name, 0)) for name in explained}}


class OptimizationChanges(TypedDict, total=False):
    """The fields of `OptimizationOptions` as keyword arguments, except ``target``.

    Functions that accept a target declare it themselves.
    """

    patterns: Selection
    verbose: int
    max_iter: int
    max_rewrites: int
    remove_unused: bool
    remove_identity: bool
    constant_folding: bool
    merge: bool
    strategy: Literal["priority", "largest"]
    provider: str
    cpu: Cpu
    strict: bool
    drop: tuple[str, ...]
    assume: Sequence[str]
    assume_from_model: bool
    guard: bool
    opset: int | Literal["newest"] | None
    outline: bool
    drop_unused_inputs: bool
    max_growth: int | str | None
    lower_at: Mapping[str, Collection[str]]
    skip_at: Mapping[str, Collection[str]]
    tag_nodes: bool
    on_event: Callable[[Event], None] | None
    on_application: Callable[[Application], None] | None
    debug: DebugSettings
