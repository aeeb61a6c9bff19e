"""The search space: choices of a model and its session, and the single changes that lead from one
to others.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from xoptim.catalogue.selection import select
from xoptim.facts.words import counted
from xoptim.match.rewrite import Rewrite
from xoptim.precision.options import Scheme
from xoptim.verification.runs.session_settings import Level, SessionSettings

SELECTION: Final = "default+onnxruntime"
"""All patterns that a recipe may use, unless others are included."""
SPINNING: Final = "session.intra_op.allow_spinning"
_SUFFIX: Final = ")"  # of the names of groups that the preset ``default`` lacks
_SIGNS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "SkipLayerNormFusion": ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"),
    "NchwcTransformer": ("ReorderInput", "ReorderOutput"),
    "TransposeOptimizer": ("Transpose",),
    "MatMulAddFusion": ("Gemm",),
    "MatmulTransposeFusion": ("FusedMatMul",),
    "BiasGeluFusion": ("BiasGelu",),
    "QDQSelectorActionTransformer": (
        "QLinearConv",
        "QLinearMatMul",
        "QGemm",
        "QLinearAdd",
        "QLinearGlobalAveragePool",
    ),
}
"""Optimizers of onnxruntime that can make a model slower, with the operators that show that they
have run.
"""
_LEVELS: Final[tuple[Level, ...]] = ("extended", "basic")
_PROMISE: Final = 0.02  # of a setting about which the profile says nothing


@dataclass(frozen=True, slots=True)
class Recipe:
    """The steps that make a model from the original."""

    without: frozenset[str] = frozenset()  # groups of patterns that do not run
    rewrites: bool = True  # whether the original is optimized at all
    newest_opset: bool = False  # whether the original is converted to the newest opset first
    scheme: Scheme | None = None  # the scheme with which MatMuls are quantized


UNTOUCHED: Final = Recipe(rewrites=False)
"""The original."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A model, and the settings of its session."""

    recipe: Recipe
    settings: SessionSettings


@dataclass(frozen=True, slots=True)
class Variation:
    """A choice that differs from another one in one point."""

    name: str  # the difference
    choice: Choice
    # share of the time of a run that it may affect, 1 or more for all of it; larger ones are tried
    # first
    promise: float
    stage: int = 1  # variations of lower stages are tried first


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about a model that limit and order the search."""

    # The groups of patterns that change the model, with the share of time of the operators that
    # they write
    groups: Mapping[str, float] = field(default_factory=dict)
    # Share of the time of a run by operator, after the optimizations of onnxruntime
    shares: Mapping[str, float] = field(default_factory=dict)
    threads: tuple[int, ...] = ()  # numbers of threads to try; empty when the user has chosen one
    selection: str = SELECTION  # the patterns that a recipe may use
    schemes: tuple[Scheme, ...] = ()  # the schemes with which MatMuls may be quantized

    def share(self, operators: Iterable[str]) -> float:
        """Share of the time of some operators together."""
        return sum(self.shares.get(name.rpartition("::")[2], 0.0) for name in operators)


Dimension: TypeAlias = Callable[[Choice, Facts], Iterable[Variation]]
"""The variations of a choice in one respect."""


def selection(include: Sequence[str] = ()) -> str:
    """`SELECTION`, and the patterns with further tags."""
    return "+".join((SELECTION, *include))


def groups_of(rewrites: Iterable[Rewrite]) -> dict[str, list[Rewrite]]:
    """The groups of some patterns: their families.

    Patterns that the preset ``default`` lacks are in groups of their own.
    """
    default, contrib = (
        {rewrite.name() for rewrite in select(preset)} for preset in ("default", "onnxruntime")
    )
    groups: dict[str, list[Rewrite]] = {}
    for rewrite in rewrites:
        preset = (
            ""
            if rewrite.name() in default
            else "onnxruntime"
            if rewrite.name() in contrib
            else rewrite.exactness
        )
        groups.setdefault(
            f"{rewrite.family()} ({preset})" if preset else rewrite.family(), []
        ).append(rewrite)
    return groups


def default_recipe(include: Sequence[str] = ()) -> Recipe:
    """The recipe of the preset ``default``: it drops the groups that this preset lacks."""
    return Recipe(
        frozenset(name for name in groups_of(select(selection(include))) if name.endswith(_SUFFIX))
    )


def variations(choice: Choice, facts: Facts, dimensions: Sequence[Dimension]) -> list[Variation]:
    """All variations of a choice, the most promising ones first.

    Shares are rounded before they are compared, so that the noise of a profile seldom changes the
    order.
    """
    generated = (variation for dimension in dimensions for variation in dimension(choice, facts))
    return sorted(
        generated,
        key=lambda variation: (variation.stage, -round(variation.promise, 1), variation.name),
    )


def _with_recipe(choice: Choice, **changes: Any) -> Choice:
    return replace(choice, recipe=replace(choice.recipe, **changes))


def _with_settings(choice: Choice, **changes: Any) -> Choice:
    return replace(choice, settings=replace(choice.settings, **changes))


def whole_selection(choice: Choice, facts: Facts) -> Iterator[Variation]:
    """All groups of patterns, also of other presets."""
    dropped = facts.groups.keys() & choice.recipe.without
    if choice.recipe.rewrites and any(name.endswith(_SUFFIX) for name in dropped):
        yield Variation(
            facts.selection,
            _with_recipe(choice, without=choice.recipe.without - dropped),
            promise=1.0,
            stage=0,
        )


def newest_opset(choice: Choice, facts: Facts) -> Iterator[Variation]:
    """The newest operator set, in which other patterns apply."""
    if choice.recipe.rewrites and not choice.recipe.newest_opset:
        yield Variation(
            "newest operator set", _with_recipe(choice, newest_opset=True), promise=1.1, stage=0
        )


def quantized_matmuls(choice: Choice, facts: Facts) -> Iterator[Variation]:
    """As many MatMuls quantized as the tolerance allows: tried first, as these save most."""
    schemes = facts.schemes if choice.recipe.rewrites and choice.recipe.scheme is None else ()
    for index, scheme in enumerate(schemes):
        yield Variation(
            scheme, _with_recipe(choice, scheme=scheme), promise=1.0 + len(schemes) - index, stage=0
        )


def single_groups(choice: Choice, facts: Facts) -> Iterator[Variation]:
    """Each group of patterns dropped, or added again; none for a quantized model, which would have
    to be quantized anew.
    """
    for name, share in (
        facts.groups.items() if choice.recipe.rewrites and choice.recipe.scheme is None else ()
    ):
        without = choice.recipe.without ^ {name}
        yield Variation(
            f"{'without' if name in without else 'with'} {name}",
            _with_recipe(choice, without=without),
            share,
        )


def single_optimizers(choice: Choice, facts: Facts) -> Iterator[Variation]:
    """Each ORT optimizer whose operators take time in the profile, disabled."""
    optimizers = choice.settings.disabled_optimizers
    for name, signs in _SIGNS_OF.items():
        share = facts.share(signs)
        if name not in optimizers and share > 0:
            changed_choice = _with_settings(choice, disabled_optimizers=(*optimizers, name))
            yield Variation(f"{name} off", changed_choice, share)


def levels(choice: Choice, facts: Facts) -> Iterator[Variation]:
    """Lower levels of ORT graph optimizations."""
    for level in _LEVELS:
        if level != choice.settings.level:
            yield Variation(f"level {level}", _with_settings(choice, level=level), _PROMISE)


def memory_pattern(choice: Choice, facts: Facts) -> Iterator[Variation]:
    """Memory patterns disabled."""
    if choice.settings.memory_pattern:
        yield Variation(
            "memory pattern off", _with_settings(choice, memory_pattern=False), _PROMISE
        )


def spinning(choice: Choice, facts: Facts) -> Iterator[Variation]:
    """Threads that sleep, rather than spin, while they wait.

    A session of one thread does not wait.
    """
    entries = choice.settings.entries
    if choice.settings.threads != 1 and SPINNING not in dict(entries):
        sleeping_choice = _with_settings(choice, entries=(*entries, (SPINNING, "0")))
        yield Variation("spinning off", sleeping_choice, _PROMISE)


def threads(choice: Choice, facts: Facts) -> Iterator[Variation]:
    """Other numbers of threads."""
    for count in facts.threads:
        if count != choice.settings.threads:
            yield Variation(
                counted(count, "thread"), _with_settings(choice, threads=count), promise=1.0
            )


PATTERNS: Final[tuple[Dimension, ...]] = (single_groups,)
"""The search for a group of patterns that makes a model slower."""
EVERYTHING: Final[tuple[Dimension, ...]] = (
    *(whole_selection, newest_opset, quantized_matmuls, *PATTERNS),
    *(single_optimizers, levels, memory_pattern, spinning, threads),
)
"""The search for the fastest model and session.

To add a dimension, add a field to `Recipe` or `SessionSettings`, and a function here.
"""
