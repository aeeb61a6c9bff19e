"""Ways to make an optimized model smaller: a newer operator set, options, assumptions that were
found by trying them.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import onnx

from xoptim.catalogue.selection import Item, select
from xoptim.diagnose.explain import Explainer, one_pattern
from xoptim.diagnose.explanation import Explanation, locate
from xoptim.engine.environment import DebugSettings
from xoptim.engine.index import defect_of, index_of
from xoptim.engine.options import OptimizationOptions
from xoptim.engine.run import Optimizer
from xoptim.facts.assumptions import Assumptions
from xoptim.facts.dtypes import is_float
from xoptim.facts.errors import XoptimError
from xoptim.facts.protos import every_node
from xoptim.graph.assumed import derived, dynamic_dims, option_of
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
from xoptim.verification.options import VerificationOptions
from xoptim.verification.reference import run_reference
from xoptim.verification.work import weight_bytes

if TYPE_CHECKING:
    from xoptim.diagnose.json_types import OpsetHintJson, OptionHintJson

_MOST_SIZES: Final = 8
_MEASURING: Final = operators_with(Trait.MEASURES)
"""Most assumptions that are tried one by one."""
_MOST_REFUSALS: Final = 3
"""Most refusals for which assumptions are tried."""


def candidates(proto: onnx.ModelProto, known: Assumptions) -> list[str]:
    """Assumptions that hold for most models: no size is 0, and no mask of floating-point numbers
    hides by infinity.
    """
    facts = dict(known.sizes)
    sizes = [
        f"{name} >= 1" for name in dynamic_dims(proto) if name not in facts or not facts[name].least
    ]
    masks = [
        f"finite({value.name})"
        for value in proto.graph.input
        if "mask" in value.name.lower()
        and is_float(value.type.tensor_type.elem_type)
        and not known.has("finite", value.name)
    ]
    return [*sizes, *masks]


def needed(texts: Sequence[str], is_enough: Callable[[Sequence[str]], bool]) -> list[str]:
    """As few of some assumptions as are enough; all of them where there are many."""
    kept = list(texts)
    for text in texts if len(texts) <= _MOST_SIZES else ():
        rest = [each for each in kept if each != text]
        if is_enough(rest):
            kept = rest
    return kept


def with_assumptions(
    model: Model, pattern: Item, found: Sequence[Explanation], provider: str = "cpu"
) -> list[Explanation]:
    """The explanations.

    The nearest misses name the assumptions under which the search would go on, if there are any.
    """
    near = [each for each in found if each.status == "refused"][:_MOST_REFUSALS]
    proto = export_model(model) if near else onnx.ModelProto()
    texts = candidates(proto, model.assumptions)
    if not texts:
        return list(found)

    def explainer(chosen: Sequence[str]) -> tuple[Model, Explainer]:
        known = Assumptions.of((*model.assumptions.texts, *chosen))
        assumed = load_model(proto, model.base_dir, assumptions=known)
        return assumed, Explainer(assumed, one_pattern(pattern), provider)

    def goes_on_with(miss: Explanation, chosen: Sequence[str]) -> bool:
        return _goes_on(miss, *explainer(chosen))

    advised: dict[int, Explanation] = {}
    for each in near:
        if _goes_on(each, *explainer(texts)):
            option = option_of(needed(texts, partial(goes_on_with, each)))
            advice = "; ".join(filter(None, (each.advice, f"{option} allows it")))
            advised[id(each)] = replace(each, advice=advice)
    return [advised.get(id(each), each) for each in found]


def _goes_on(refused: Explanation, model: Model, explainer: Explainer) -> bool:
    """Whether a pattern matches where it was refused, or is refused by a later condition."""
    try:
        node = locate(model, next(filter(None, refused.anchor.outputs)))[0]
        found = explainer.explain(node)
    except (XoptimError, StopIteration, IndexError):
        return False
    return found.matches or found.progress > refused.progress


@dataclass(frozen=True, slots=True)
class OpsetHint:
    """Patterns that an optimized model is too old for, and that apply when it is raised."""

    present: int  # operator set of the model
    nodes: int  # how many nodes fewer
    opset: int  # oldest operator set in which all these patterns apply
    patterns: dict[str, int]  # number of applications by name
    is_exact: bool = False  # whether the complete selection was applied

    def __str__(self) -> str:
        about = "" if self.is_exact or self.nodes <= 0 else "about "
        return (
            f"{about}{_gain(self.nodes, self.patterns)} with --opset {self.opset} (the model has "
            f"operator set {self.present})"
        )

    def to_json(self) -> OpsetHintJson:
        """``opset``, ``patterns`` and ``nodes``, as JSON values."""
        return {"opset": self.opset, "patterns": self.patterns, "nodes": self.nodes}


def _gain(nodes: int, patterns: Mapping[str, int]) -> str:
    """The nodes that would go, or the patterns that would apply where none would."""
    if nodes > 0:
        return f"{nodes} fewer {'node' if nodes == 1 else 'nodes'}"
    return ", ".join(f"{name} {count}" for name, count in patterns.items()) or "further rewrites"


def _loaded(proto: onnx.ModelProto, options: OptimizationOptions, base_dir: Path | None) -> Model:
    """A result of an optimization, under the assumptions of its options."""
    known = derived(proto, options.assume, from_model=options.assume_from_model)
    return load_model(proto, base_dir, assumptions=known)


@quietly()
def opset_hint(
    proto: onnx.ModelProto,
    options: OptimizationOptions,
    base_dir: Path | None = None,
    original: Source | str | Path | onnx.ModelProto | None = None,
) -> OpsetHint | None:
    """Count what a newer operator set would add to an optimized model.

    The original (by default the optimized model itself) is optimized at the newer operator set; of
    a large model, only a raised copy gets the patterns that wait for it. This is tried only if the
    operators around a node occur in such a pattern. ``None`` when no pattern of the selection waits
    for an operator set that the provider supports, or none applies.
    """
    model = load_model(proto, base_dir, infer=False)
    present = model.opsets.get("", 0)
    waiting = [
        p
        for p in options.selected()
        if isinstance(p, PatternOptimization) and present < p.min_opset
    ]
    if not present or not may_match(model, waiting):
        return None
    reachable = newest_for(model, options.provider)
    waiting = [pattern for pattern in waiting if pattern.min_opset <= reachable]
    if not may_match(model, waiting):
        return None
    target = max(pattern.min_opset for pattern in waiting)
    if not is_large(proto):
        given = Source(proto, base_dir) if original is None else Source.of(original)
        return _exact_hint(model, given, options, waiting, target)
    quiet = OptimizationOptions(
        provider=options.provider, opset=target, patterns=waiting, debug=DebugSettings()
    )
    optimizer = Optimizer(
        _loaded(proto, options, base_dir), replace(quiet, constant_folding=False, merge=False)
    )
    try:
        optimizer.run()
    # a node cannot be raised, or patterns undo each other: there is nothing to recommend
    except XoptimError:
        return None
    needs = {p.name(): p.min_opset for p in waiting if optimizer.state.counts[p.name()]}
    if not needs:
        return None
    counts = {name: optimizer.state.counts[name] for name in needs}
    nodes = _count(model) - _count(optimizer.model)
    return OpsetHint(present, nodes, max(needs.values()), counts)


def _exact_hint(
    result: Model,
    original: Source,
    options: OptimizationOptions,
    waiting: Sequence[PatternOptimization],
    target: int,
) -> OpsetHint | None:
    """What the complete selection makes of the original at a newer operator set, compared with
    the result at the present one.
    """
    found = _optimized_at(target, original, options)
    if found is None:
        return None
    needs = {p.name(): p.min_opset for p in waiting if found.state.counts[p.name()]}
    if not needs:
        return None
    opset = max(needs.values())
    if opset < target:
        found = _optimized_at(opset, original, options) or found
    counts = {name: found.state.counts[name] for name in needs}
    nodes = _count(result) - _count(found.model)
    return OpsetHint(result.opsets[""], nodes, opset, counts, is_exact=True)


def _optimized_at(opset: int, original: Source, options: OptimizationOptions) -> Optimizer | None:
    """The optimizer after its run, ``None`` where a node cannot be raised."""
    return optimized(original.proto, replace(options, opset=opset), original.base_dir)


def optimized(
    proto: onnx.ModelProto, options: OptimizationOptions, base_dir: Path | None
) -> Optimizer | None:
    """The optimizer after a run that is reported to nobody, ``None`` where it fails."""
    chosen = replace(unreported(options), outline=False, guard=False)
    optimizer = Optimizer(_loaded(proto, options, base_dir), chosen)
    try:
        optimizer.run()
    except XoptimError:
        return None
    return optimizer


def is_large(proto: onnx.ModelProto) -> bool:
    """Whether nothing more is tried: the optimization has to wait for it."""
    return sum(1 for _ in every_node(proto.graph.node)) > MOST_NODES or (
        weight_bytes(proto) > _MOST_BYTES
    )


def unreported(options: OptimizationOptions) -> OptimizationOptions:
    """The options without anything that is reported to somebody."""
    return replace(options, verbose=0, on_event=None, on_application=None, debug=DebugSettings())


def may_match(model: Model, patterns: list[PatternOptimization]) -> bool:
    """Whether the operators around some node occur in one of these patterns: a fast, necessary
    condition.
    """
    index = index_of(tuple(p for p in patterns if defect_of(p) is None), ())
    return any(index.candidates(graph, index.anchors_in(graph)) for graph in model.graphs())


MOST_NODES: Final = 5000
"""Nodes of a model above which nothing is tried: the optimization has to wait for it."""
_MOST_BYTES: Final = 1 << 28
_PATIENCE: Final = 5.0  # seconds of a run of such a model
_CHECKS: Final = VerificationOptions()
_PRESETS: Final = {
    "onnxruntime": ("--include onnxruntime", "ONNX Runtime only"),
    "finite": ("--assume finite", "if no NaN, infinity or -0 occurs"),
    "approximate": ("--include approximate", "larger differences"),
}
"""Presets other than the default one: the options that add them, and their price."""


@dataclass(frozen=True, slots=True)
class OptionHint:
    """The effect of an option of the command: applications of patterns by name, the number of
    nodes that would go, and the price.
    """

    option: str
    patterns: dict[str, int]
    nodes: int
    price: str

    def __str__(self) -> str:
        return f"{_gain(self.nodes, self.patterns)} with {self.option} ({self.price})"

    def to_json(self) -> OptionHintJson:
        """All fields."""
        return {
            "option": self.option,
            "patterns": self.patterns,
            "nodes": self.nodes,
            "price": self.price,
        }


def option_hints(
    proto: onnx.ModelProto,
    options: OptimizationOptions,
    sizes: Mapping[str, int],
    base_dir: Path | None = None,
    checks: VerificationOptions = _CHECKS,
) -> list[OptionHint]:
    """The options among ``--include``, ``--assume``, ``--fix`` and ``--inline`` that would change
    an optimized model.

    ``sizes`` belong to the dynamic dimensions with which the model runs; without any, fixed sizes
    are not tried. The hint names typical sizes, if the model runs with them on the values in
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
    found: list[OptionHint] = []
    for trial in trials:
        try:
            with quietly():
                hint = trial()
        except MemoryError:
            raise
        # sizes that contradict the model, calls that the inliner cannot replace, ...: no advice
        except Exception:
            continue
        found += [] if hint is None else [hint]
    return found


def _with_preset(
    preset: str, proto: onnx.ModelProto, options: OptimizationOptions, base_dir: Path | None
) -> OptionHint | None:
    """The patterns of a preset that are not selected; none that the target would not run."""
    if (
        preset == "onnxruntime"
        and options.target
        and named(options.target).needs.standard_operators
    ):
        return None
    chosen = {pattern.name() for pattern in options.selected()}
    usable = [
        p
        for p in select(preset, options.drop)
        if p.unfit_for(None, options.provider_for(p)) is None
    ]
    extra = [p for p in usable if isinstance(p, PatternOptimization) and p.name() not in chosen]
    if not may_match(load_model(proto, base_dir, infer=False), extra):
        return None
    further = replace(options, patterns=extra, constant_folding=False, merge=False)
    return _tried(_loaded(proto, options, base_dir), further, *_PRESETS[preset])


def _with_assumptions(
    proto: onnx.ModelProto, options: OptimizationOptions, base_dir: Path | None
) -> OptionHint | None:
    """The assumptions that hold for most models, as few as let the same patterns apply."""
    known = derived(proto, options.assume, from_model=options.assume_from_model)
    texts = candidates(proto, known)

    @cache
    def tried(chosen: tuple[str, ...]) -> OptionHint | None:
        assumed = load_model(proto, base_dir, assumptions=Assumptions.of((*known.texts, *chosen)))
        return _tried(assumed, options, option_of(chosen), "if that holds")

    found = tried(tuple(texts)) if texts else None
    if found is None or not found.patterns:
        return None

    def is_as_good(chosen: Sequence[str]) -> bool:
        hint = tried(tuple(chosen))
        return hint is not None and hint.patterns == found.patterns

    few = needed(texts, is_as_good)
    # patterns that apply without any, as in a model that was optimized otherwise
    return tried(tuple(few)) if few else None


def _with_sizes(
    proto: onnx.ModelProto,
    options: OptimizationOptions,
    sizes: Mapping[str, int],
    checks: VerificationOptions,
) -> OptionHint | None:
    """Fixed sizes, where the model computes with its sizes."""
    if not sizes or all(node.op_type not in _MEASURING for node in proto.graph.node):
        return None
    small = _fixed(proto, options, sizes, checks.original_dir)
    if small is None:
        return None
    try:
        usual = replace(
            checks,
            assignments=1,
            typical=True,
            extremes=False,
            time_limit=_PATIENCE,
            run_limit=_PATIENCE,
        )
        return (
            _fixed(proto, options, run_reference(proto, usual).runs[0].sizes, checks.original_dir)
            or small
        )
    except XoptimError:
        return small


def _fixed(
    proto: onnx.ModelProto,
    options: OptimizationOptions,
    sizes: Mapping[str, int],
    base_dir: Path | None,
) -> OptionHint | None:
    copy = deepcopy(proto)
    fix_sizes(copy, {name: [size] for name, size in sizes.items()})
    option = f"--fix {shlex.quote(','.join(f'{name}={size}' for name, size in sizes.items()))}"
    found = _tried(_loaded(copy, options, base_dir), options, option, "fixed dimensions")
    return found if found is not None and found.nodes > 0 else None


def _inlined(
    proto: onnx.ModelProto, options: OptimizationOptions, base_dir: Path | None
) -> OptionHint | None:
    """Local functions replaced by their bodies: the patterns that apply then and did not apply
    within the functions.
    """
    if not proto.functions:
        return None
    inlined = _loaded(inline_functions(proto), options, base_dir)
    found = _tried(inlined, options, "--inline", "inlines local functions")
    return None if found is None or not found.patterns else replace(found, nodes=0)


def _tried(
    model: Model, options: OptimizationOptions, option: str, price: str
) -> OptionHint | None:
    before = _count(model)
    optimizer = Optimizer(model, options)
    optimizer.run()
    counts: dict[str, int] = dict(sorted(optimizer.state.counts.items()))
    removed = before - _count(model)
    return OptionHint(option, counts, max(removed, 0), price) if counts or removed > 0 else None


def _count(model: Model) -> int:
    return sum(len(graph.nodes) for graph in model.graphs())
