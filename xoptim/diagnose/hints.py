"""Ways to make an optimized model smaller, found by trying them: a newer operator set, options,
assumptions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Final

import onnx

from xoptim.catalogue.selection import Item, chosen
from xoptim.diagnose.explain import Explainer, one_pattern
from xoptim.diagnose.explanation import Explanation, locate
from xoptim.engine.environment import DebugSettings
from xoptim.engine.index import defect_of, index_of
from xoptim.engine.options import OptimizationOptions
from xoptim.engine.run import Optimizer
from xoptim.facts.advice import Advice
from xoptim.facts.assumptions import Assumptions
from xoptim.facts.dtypes import is_float
from xoptim.facts.errors import XoptimError
from xoptim.facts.json_results import JsonForm, JsonResult
from xoptim.facts.protos import every_node
from xoptim.graph.assumed import derived, dynamic_dims
from xoptim.graph.export import export_model
from xoptim.graph.load import load_model
from xoptim.graph.model import Model
from xoptim.graph.propagate import quietly
from xoptim.graph.sources import Source
from xoptim.graph.splice import inline_functions
from xoptim.match.pattern import PatternOptimization
from xoptim.operators.registry import Trait, operators_with
from xoptim.passes.opsets.newest import newest_for
from xoptim.preparation.preparation import fix_sizes
from xoptim.targets import named
from xoptim.verification.inputs.reference import run_reference
from xoptim.verification.inputs.work import weight_bytes
from xoptim.verification.options import VerificationOptions

_MAX_ASSUMPTIONS: Final = 8
"""Maximum number of assumptions that are tried one by one."""
_SHAPE_OPERATORS: Final = operators_with(Trait.MEASURES)
"""Operators whose results consist of sizes of their operands, such as Shape."""
_MAX_REFUSALS: Final = 3
"""Maximum number of refusals for which assumptions are tried."""


def candidates(proto: onnx.ModelProto, assumptions: Assumptions) -> list[str]:
    """Further assumptions that hold for most models: no dimension is 0, and float masks are finite.

    Those that follow from ``assumptions`` are skipped.
    """
    facts = dict(assumptions.sizes)
    sizes = [
        f"{name} >= 1" for name in dynamic_dims(proto) if name not in facts or not facts[name].least
    ]
    masks = [
        f"finite({value.name})"
        for value in proto.graph.input
        if "mask" in value.name.lower()
        and is_float(value.type.tensor_type.elem_type)
        and not assumptions.has("finite", value.name)
    ]
    return [*sizes, *masks]


def needed(texts: Sequence[str], is_enough: Callable[[Sequence[str]], bool]) -> list[str]:
    """The assumptions without those that are not needed; all of them when there are many."""
    kept = list(texts)
    for text in texts if len(texts) <= _MAX_ASSUMPTIONS else ():
        fewer_texts = [item for item in kept if item != text]
        if is_enough(fewer_texts):
            kept = fewer_texts
    return kept


def with_assumptions(
    model: Model, pattern: Item, explanations: Sequence[Explanation], provider: str = "cpu"
) -> list[Explanation]:
    """The explanations with more advice: assumptions under which the nearest misses get further."""
    misses = [miss for miss in explanations if miss.status == "refused"][:_MAX_REFUSALS]
    proto = export_model(model) if misses else onnx.ModelProto()
    texts = candidates(proto, model.assumptions)
    if not texts:
        return list(explanations)

    def explainer(subset: Sequence[str]) -> tuple[Model, Explainer]:
        assumptions = Assumptions.of((*model.assumptions.texts, *subset))
        assumed = load_model(proto, model.base_dir, assumptions=assumptions)
        return assumed, Explainer(assumed, one_pattern(pattern), provider)

    def goes_on_with(miss: Explanation, subset: Sequence[str]) -> bool:
        return _goes_on(miss, *explainer(subset))

    advised: dict[int, Explanation] = {}
    for miss in misses:
        if _goes_on(miss, *explainer(texts)):
            premises = tuple(needed(texts, partial(goes_on_with, miss)))
            option = Advice("assume", premises, "allows it")
            advice = "; ".join(filter(None, (miss.advice, str(option))))
            advised[id(miss)] = replace(miss, advice=advice)
    return [advised.get(id(explanation), explanation) for explanation in explanations]


def _goes_on(miss: Explanation, model: Model, explainer: Explainer) -> bool:
    """Whether a pattern matches where it was refused, or is refused by a later condition."""
    try:
        node = locate(model, next(filter(None, miss.anchor.outputs)))[0]
        result = explainer.explain(node)
    except (XoptimError, StopIteration, IndexError):
        return False
    return result.matches or result.progress > miss.progress


@dataclass(frozen=True, slots=True)
class OpsetHint(JsonResult):
    """Patterns that apply in a newer operator set.

    Attributes:
        present: operator set of the model.
        nodes: number of nodes that the newer operator set saves.
        opset: the oldest operator set in which the patterns apply.
        patterns: number of applications by name.
        is_exact: whether ``nodes`` is exact, because the complete selection was applied.
    """

    __json__ = JsonForm("opset patterns nodes")
    present: int
    nodes: int
    opset: int
    patterns: dict[str, int]
    is_exact: bool = False

    def __str__(self) -> str:
        about = "" if self.is_exact or self.nodes <= 0 else "about "
        return (
            f"{about}{_gain(self.nodes, self.patterns)} with "
            f"{Advice('opset', str(self.opset))} (the model has operator set {self.present})"
        )


def _gain(nodes: int, patterns: Mapping[str, int]) -> str:
    """The number of nodes saved; when it is 0, the patterns that would apply."""
    if nodes > 0:
        return f"{nodes} fewer {'node' if nodes == 1 else 'nodes'}"
    return ", ".join(f"{name} {count}" for name, count in patterns.items()) or "further rewrites"


def _loaded(proto: onnx.ModelProto, options: OptimizationOptions, base_dir: Path | None) -> Model:
    """A result of an optimization, under the assumptions of its options."""
    assumptions = derived(proto, options.assume, from_model=options.assume_from_model)
    return load_model(proto, base_dir, assumptions=assumptions)


@quietly()
def opset_hint(
    proto: onnx.ModelProto,
    options: OptimizationOptions,
    base_dir: Path | None = None,
    original: Source | str | Path | onnx.ModelProto | None = None,
) -> OpsetHint | None:
    """Count the rewrites that a newer operator set would add to an optimized model.

    The original (by default the optimized model itself) is optimized at the newer operator set. For
    a large model, only the patterns that need it are applied to a converted copy. ``None`` when the
    selection has no pattern that needs a newer operator set, the provider does not support it, or
    none of the patterns applies.
    """
    model = load_model(proto, base_dir, infer=False)
    present = model.opsets.get("", 0)
    patterns = [
        p
        for p in options.scheduled()
        if isinstance(p, PatternOptimization) and present < p.min_opset
    ]
    if not present or not may_match(model, patterns):
        return None
    reachable = newest_for(model, options.provider)
    patterns = [pattern for pattern in patterns if pattern.min_opset <= reachable]
    if not may_match(model, patterns):
        return None
    target = max(pattern.min_opset for pattern in patterns)
    if not is_large(proto):
        source = Source(proto, base_dir) if original is None else Source.of(original)
        return _exact_hint(model, source, options, patterns, target)
    quiet = OptimizationOptions(
        provider=options.provider, opset=target, patterns=patterns, debug=DebugSettings()
    )
    optimizer = Optimizer(
        _loaded(proto, options, base_dir), replace(quiet, constant_folding=False, merge=False)
    )
    try:
        optimizer.run()
    # a node cannot be converted, or patterns undo each other: there is nothing to recommend
    except XoptimError:
        return None
    needs = {p.name(): p.min_opset for p in patterns if optimizer.state.counts[p.name()]}
    if not needs:
        return None
    counts = {name: optimizer.state.counts[name] for name in needs}
    nodes = _count(model) - _count(optimizer.model)
    return OpsetHint(present, nodes, max(needs.values()), counts)


def _exact_hint(
    result: Model,
    original: Source,
    options: OptimizationOptions,
    patterns: Sequence[PatternOptimization],
    target: int,
) -> OpsetHint | None:
    """The effect of the complete selection on the original at a newer operator set, compared with
    the result at the present one.
    """
    optimizer = _optimized_at(target, original, options)
    if optimizer is None:
        return None
    needs = {p.name(): p.min_opset for p in patterns if optimizer.state.counts[p.name()]}
    if not needs:
        return None
    opset = max(needs.values())
    if opset < target:
        optimizer = _optimized_at(opset, original, options) or optimizer
    counts = {name: optimizer.state.counts[name] for name in needs}
    nodes = _count(result) - _count(optimizer.model)
    return OpsetHint(result.opsets[""], nodes, opset, counts, is_exact=True)


def _optimized_at(opset: int, original: Source, options: OptimizationOptions) -> Optimizer | None:
    """The optimizer after its run, ``None`` when a node cannot be converted."""
    return optimized(original.proto, replace(options, opset=opset), original.base_dir)


def optimized(
    proto: onnx.ModelProto, options: OptimizationOptions, base_dir: Path | None
) -> Optimizer | None:
    """The optimizer after a run without listeners, ``None`` when it fails."""
    settings = replace(unreported(options), outline=False, guard=False)
    optimizer = Optimizer(_loaded(proto, options, base_dir), settings)
    try:
        optimizer.run()
    except XoptimError:
        return None
    return optimizer


def is_large(proto: onnx.ModelProto) -> bool:
    """Whether optimizing a model again, to try hints, would keep the user waiting too long."""
    return sum(1 for _ in every_node(proto.graph.node)) > MOST_NODES or (
        weight_bytes(proto) > _MAX_BYTES
    )


def unreported(options: OptimizationOptions) -> OptimizationOptions:
    """The options without listeners, log and dumps."""
    return replace(options, verbose=0, on_event=None, on_application=None, debug=DebugSettings())


def may_match(model: Model, patterns: list[PatternOptimization]) -> bool:
    """Whether the operators around some node occur in one of these patterns: a fast, necessary
    condition.
    """
    index = index_of(tuple(p for p in patterns if defect_of(p) is None), ())
    return any(map(index.has_candidates, model.graphs()))


MOST_NODES: Final = 5000
"""Number of nodes above which a model is large; see `is_large`."""
_MAX_BYTES: Final = 1 << 28
_MAX_SECONDS: Final = 5.0  # of a run at typical sizes
_CHECKS: Final = VerificationOptions()
_PRESETS: Final = {
    "onnxruntime": (Advice("include", "onnxruntime"), "ONNX Runtime only"),
    "finite": (Advice("assume", "finite"), "if no NaN, infinity or -0 occurs"),
    "approximate": (Advice("include", "approximate"), "larger differences"),
}
"""Presets that are not the default: the option that adds each of them, and its price."""


@dataclass(frozen=True, slots=True)
class OptionHint(JsonResult):
    """The effect that an option of the command would have.

    Attributes:
        advice: the option.
        patterns: number of applications by name.
        nodes: number of nodes that the option saves.
        price: the drawback of the option, in a few words.
    """

    __json__ = JsonForm("option patterns nodes price")
    advice: Advice
    patterns: dict[str, int]
    nodes: int
    price: str

    @property
    def option(self) -> str:
        """The option."""
        return str(self.advice)

    def __str__(self) -> str:
        return f"{_gain(self.nodes, self.patterns)} with {self.option} ({self.price})"


def option_hints(
    proto: onnx.ModelProto,
    options: OptimizationOptions,
    sizes: Mapping[str, int],
    base_dir: Path | None = None,
    checks: VerificationOptions = _CHECKS,
) -> list[OptionHint]:
    """The options among ``--include``, ``--assume``, ``--fix`` and ``--inline`` that would change
    an optimized model.

    ``sizes`` are sizes of the dynamic dimensions with which the model runs; without any, ``--fix``
    is not tried. Its hint names typical sizes if the model runs with them on the values in
    ``checks``.
    """
    if is_large(proto):
        return []
    quiet = replace(unreported(options), opset=None, outline=False, max_growth=0)
    trials = (
        *(partial(_with_preset, preset, proto, quiet, base_dir) for preset in _PRESETS),
        partial(_with_assumptions, proto, quiet, base_dir),
        partial(_with_sizes, proto, quiet, sizes, replace(checks, original_dir=base_dir)),
        partial(_inlined, proto, quiet, base_dir),
    )
    hints: list[OptionHint] = []
    for trial in trials:
        try:
            with quietly():
                hint = trial()
        except MemoryError:
            raise
        # sizes that contradict the model, calls that the inliner cannot replace, ...: no advice
        except Exception:
            continue
        hints += [] if hint is None else [hint]
    return hints


def _with_preset(
    preset: str, proto: onnx.ModelProto, options: OptimizationOptions, base_dir: Path | None
) -> OptionHint | None:
    """The effect of those patterns of a preset that are usable here and not selected yet."""
    if (
        preset == "onnxruntime"
        and options.target
        and named(options.target).needs.standard_operators
    ):
        return None
    selected_names = {pattern.name() for pattern in options.scheduled()}
    patterns = [
        p
        for p in (entry.scheduled for entry in chosen(preset, options.drop))
        if isinstance(p, PatternOptimization)
        and p.name() not in selected_names
        and p.unfit_for(None, options.provider_for(p)) is None
    ]
    if not may_match(load_model(proto, base_dir, infer=False), patterns):
        return None
    settings = replace(options, patterns=patterns, constant_folding=False, merge=False)
    return _hint(_loaded(proto, options, base_dir), settings, *_PRESETS[preset])


def _with_assumptions(
    proto: onnx.ModelProto, options: OptimizationOptions, base_dir: Path | None
) -> OptionHint | None:
    """The effect of the usual assumptions: as few as make the same patterns apply."""
    assumptions = derived(proto, options.assume, from_model=options.assume_from_model)
    texts = candidates(proto, assumptions)

    @cache
    def hint_with(subset: tuple[str, ...]) -> OptionHint | None:
        assumed = load_model(
            proto, base_dir, assumptions=Assumptions.of((*assumptions.texts, *subset))
        )
        return _hint(assumed, options, Advice("assume", subset), "if that holds")

    best = hint_with(tuple(texts)) if texts else None
    if best is None or not best.patterns:
        return None

    def is_as_good(subset: Sequence[str]) -> bool:
        hint = hint_with(tuple(subset))
        return hint is not None and hint.patterns == best.patterns

    subset = needed(texts, is_as_good)
    # The subset is empty if the patterns apply without an assumption: another optimizer, which does
    # not have them, wrote the model.
    return hint_with(tuple(subset)) if subset else None


def _with_sizes(
    proto: onnx.ModelProto,
    options: OptimizationOptions,
    sizes: Mapping[str, int],
    checks: VerificationOptions,
) -> OptionHint | None:
    """The effect of fixed sizes, if the model computes with shapes."""
    if not sizes or all(node.op_type not in _SHAPE_OPERATORS for node in proto.graph.node):
        return None
    hint = _fixed(proto, options, sizes, checks.original_dir)
    if hint is None:
        return None
    try:
        typical_checks = replace(
            checks,
            assignments=1,
            typical=True,
            extremes=False,
            time_limit=_MAX_SECONDS,
            run_limit=_MAX_SECONDS,
        )
        typical_sizes = run_reference(proto, typical_checks).runs[0].sizes
        return _fixed(proto, options, typical_sizes, checks.original_dir) or hint
    except XoptimError:
        return hint


def _fixed(
    proto: onnx.ModelProto,
    options: OptimizationOptions,
    sizes: Mapping[str, int],
    base_dir: Path | None,
) -> OptionHint | None:
    copy = deepcopy(proto)
    fix_sizes(copy, {name: [size] for name, size in sizes.items()}, base_dir)
    advice = Advice("fix", ",".join(f"{name}={size}" for name, size in sizes.items()))
    hint = _hint(_loaded(copy, options, base_dir), options, advice, "fixed dimensions")
    return hint if hint is not None and hint.nodes > 0 else None


def _inlined(
    proto: onnx.ModelProto, options: OptimizationOptions, base_dir: Path | None
) -> OptionHint | None:
    """The effect of inlining: the patterns that apply to the bodies where functions are called.

    Saved nodes are not counted, because inlining itself changes the number of nodes.
    """
    if not proto.functions:
        return None
    inlined = _loaded(inline_functions(proto), options, base_dir)
    hint = _hint(inlined, options, Advice("inline"), "inlines local functions")
    return None if hint is None or not hint.patterns else replace(hint, nodes=0)


def _hint(
    model: Model, options: OptimizationOptions, advice: Advice, price: str
) -> OptionHint | None:
    before = _count(model)
    optimizer = Optimizer(model, options)
    optimizer.run()
    counts: dict[str, int] = dict(sorted(optimizer.state.counts.items()))
    removed = before - _count(model)
    return OptionHint(advice, counts, max(removed, 0), price) if counts or removed > 0 else None


def _count(model: Model) -> int:
    return sum(len(graph.nodes) for graph in model.graphs())
