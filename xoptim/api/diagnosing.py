"""The public functions for diagnosis: why and where patterns apply, which rewrite changes a result,
how models differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypedDict, TypeVar, Unpack

from xoptim.catalogue.selection import Item, Selection, select
from xoptim.diagnose.differences import Difference, common_results, differences
from xoptim.diagnose.each import with_outputs
from xoptim.diagnose.explain import apply_in_model, explain_model, find_in_model
from xoptim.diagnose.explanation import Explanation
from xoptim.diagnose.hints import with_assumptions
from xoptim.diagnose.report import FirstRewrites, is_at
from xoptim.engine.events import Application
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.changes import with_changes
from xoptim.facts.errors import ModelError
from xoptim.facts.json_results import JsonForm, JsonResult, member
from xoptim.facts.operators import operator_label
from xoptim.graph.assumed import assumed_of, report_unused
from xoptim.graph.load import load_model
from xoptim.graph.model import Model
from xoptim.graph.sources import Source
from xoptim.graph.walk import reads
from xoptim.match.pattern import PatternOptimization
from xoptim.optimizing.builder import GraphBuilder
from xoptim.passes.guards import RemoveGuards
from xoptim.verification.errors import FeedError, RunError
from xoptim.verification.inputs.reference import run_reference
from xoptim.verification.judging.compare import Comparison, compare_values
from xoptim.verification.options import VerificationChanges, VerificationOptions
from xoptim.verification.runs.session import Session, Value


@dataclass(frozen=True, slots=True)
class ValueDifference(JsonResult):
    """A result that differs between two models.

    Attributes:
        name: name of the result.
        operator: operator that produces it in the first model.
        node: name of its node there.
        comparison: the comparison of the two values.
        is_first: whether everything that its node reads is equal, so that the difference begins at
            this node. Results that only one model has are not compared, and count as equal.
    """

    __json__ = JsonForm(
        "name operator node is_first comparison.max_abs",
        member("comparison.message", description="the difference in words."),
    )
    name: str
    operator: str
    node: str
    comparison: Comparison
    is_first: bool

    def __str__(self) -> str:
        return (
            f"{self.name!r} of {self.operator} {self.node!r}: "
            f"{self.comparison.message or 'differs'}"
        )


def diff(first: Any, second: Any) -> list[Difference]:
    """The differences of two models, given as for `xoptim.optimize`: nodes by structure and name,
    constants, types.

    Raises `ModelError` when a model cannot be read.
    """
    return differences(_loaded(Source(first)), _loaded(Source(second)))


def diff_values(
    first: Any,
    second: Any,
    options: VerificationOptions | None = None,
    **changes: Unpack[VerificationChanges],
) -> list[ValueDifference]:
    """The results that differ between two models that run on the same values.

    Results with the same name in both are compared, in the order of the first.

    Args:
        first: a model as for `xoptim.optimize`.
        second: another model, with the same inputs.
        options: values, provider and tolerance of the comparison.
        **changes: fields of `VerificationOptions` to set.

    Raises:
        ModelError: a model cannot be read.
        LoadError, FeedError, RunError: a model cannot be run.
    """
    sources = Source(first), Source(second)
    models = [_loaded(source) for source in sources]
    checks = with_changes(VerificationOptions, options, changes)
    checks = replace(checks, assignments=1, original_dir=sources[0].base_dir)
    assumptions = [
        assumed_of(source.proto, checks.assume, from_model=checks.assume_from_model)
        for source in sources
    ]
    for source, facts in zip(sources, assumptions, strict=True):
        report_unused(source.proto, facts)
    checks = replace(checks, assume=tuple(text for facts in assumptions for text in facts.texts))
    run = run_reference(sources[0].proto, checks).runs[0]
    names = common_results(models[0], models[1])
    try:
        values = [_values(source, names, checks, run.feeds) for source in sources]
    except (FeedError, RunError) as error:
        inputs = [entry for entry in differences(*models) if entry.part == "input"]
        if not inputs:
            raise
        raise FeedError(
            f"the models do not run on the same values: input {inputs[0].name!r}: "
            f"{inputs[0].detail}"
        ) from error
    return _value_differences(names, values, models[0], checks)


def _value_differences(
    names: Sequence[str],
    values: Sequence[Mapping[str, Any]],
    model: Model,
    checks: VerificationOptions,
) -> list[ValueDifference]:
    """The results whose values differ; ``is_first`` is True where nothing that the node reads
    differs.
    """
    results: list[ValueDifference] = []
    differing_names: set[str] = set()
    for name in names:
        comparisons = compare_values(name, values[0][name], values[1][name], checks.rules)
        comparison = next((item for item in comparisons if not item.ok), None)
        if comparison is None:
            continue
        node = model.graph.producer(name)
        assert node is not None
        differing_names.add(name)
        operator = operator_label(node.op_type, node.domain)
        results.append(
            ValueDifference(
                name, operator, node.name, comparison, differing_names.isdisjoint(reads(node))
            )
        )
    return results


def _loaded(source: Source) -> Model:
    return load_model(source.proto, source.base_dir)


def _values(
    source: Source, names: list[str], options: VerificationOptions, feeds: dict[str, Value]
) -> dict[str, Value]:
    session = Session(with_outputs(source.proto, names), options.settings, base_dir=source.base_dir)
    return dict(zip(names, session.run(feeds), strict=True))


AnyModel = TypeVar("AnyModel")


class ExplainOptions(TypedDict, total=False):
    """Options of `OptimizationOptions` that an explanation uses. With ``opset``, the model is
    converted and cleaned first.
    """

    provider: str
    opset: int | Literal["newest"] | None
    assume: Sequence[str]
    assume_from_model: bool


def explain(
    model: Any,
    pattern: Item,
    at: str | None = None,
    *,
    after: Selection = None,
    provider: str = "cpu",
    limit: int | None = None,
    assume: Sequence[str] = (),
    assume_from_model: bool = False,
) -> list[Explanation]:
    """Explain why a pattern does not apply: the first condition that failed at each node.

    Args:
        model: as for `xoptim.optimize`, or a `GraphBuilder`; it is not changed.
        pattern: name, class or instance.
        at: only this node: its name, the name of one of its results, or ``#17`` for its position.
        after: selection of patterns to run first, to explain a fusion at the point where it runs
            within an optimization (``"default"``; ``""`` only cleans, folds constants and merges
            equal nodes); by default the model is not optimized.
        provider: execution provider that the model would be optimized for.
        assume: assumptions about sizes and values, as for `OptimizationOptions`; without ``after``,
            ignored for a `GraphBuilder`, which has its own.
        assume_from_model: also use the assumptions in the metadata of the model; ignored likewise.
        limit: maximum number of refusals to return; all when ``None``, but 20 for a pattern that is
            tried at every node.

    Returns:
        Errors of the pattern, then refusals, the nearest miss first, then matches; ties in the
        order of the graph. With ``after``, matches that the optimization removed come last: applied
        by this pattern, rewritten by another one, or removed by cleanup, constant folding or
        merging.

    Raises:
        ModelError: the model cannot be read, or no node has the name ``at``.
        UnknownPatternError: the pattern is unknown, or ``pattern`` selects several.
        AssumptionError: an assumption cannot be read, or does not fit the model.
    """
    options: ExplainOptions = {"provider": provider, "assume": assume}
    options["assume_from_model"] = assume_from_model
    return explain_run(model, pattern, at, after=after, limit=limit, **options)


def explain_run(
    model: Any,
    pattern: Item,
    at: str | None = None,
    *,
    after: Selection = None,
    limit: int | None = None,
    **options: Unpack[ExplainOptions],
) -> list[Explanation]:
    """Like `explain`, for a run that may convert the model."""
    first_rewrites, provider = FirstRewrites(), options.get("provider", "cpu")
    builder = _prepared(model, after, first_rewrites, **options)
    load = partial(_prepared, model, None, **options)
    matches = (
        [] if after is None else _lost_matches(load, pattern, provider, first_rewrites, builder)
    )
    lost_matches = [match for match in matches if at is None or is_at(match, at)]
    try:
        explanations = explain_model(builder.model, pattern, at, provider=provider, limit=limit)
    except ModelError:
        if not lost_matches:
            raise
        explanations = []
    if all(isinstance(rewrite, PatternOptimization) for rewrite in select(pattern)):
        explanations = with_assumptions(builder.model, pattern, explanations, provider)
    return [*explanations, *lost_matches]


def _lost_matches(
    load: Callable[[], GraphBuilder],
    pattern: Item,
    provider: str,
    first_rewrites: FirstRewrites,
    builder: GraphBuilder,
) -> list[Explanation]:
    """The matches in the model before optimization that the optimization removed, each with the
    reason.

    ``load`` gives the model before optimization, and ``builder`` holds it afterwards.
    """
    if any(not isinstance(rewrite, PatternOptimization) for rewrite in select(pattern)):
        return []
    matches = find_in_model(load().model, pattern, provider=provider)
    return first_rewrites.explain(
        matches,
        {name for graph in builder.model.graphs() for node in graph.nodes for name in node.output},
    )


def find_matches(
    model: Any,
    pattern: Item,
    *,
    after: Selection = None,
    provider: str = "cpu",
    assume: Sequence[str] = (),
    assume_from_model: bool = False,
    opset: int | Literal["newest"] | None = None,
) -> list[Explanation]:
    """The matches of a pattern, with the matched nodes and the captures. They may overlap.

    Arguments and errors as for `explain`; an error of the pattern raises an `XoptimError`. With
    ``opset``, the model is converted and cleaned first.
    """
    options: ExplainOptions = {"provider": provider, "assume": assume, "opset": opset}
    builder = _prepared(model, after, assume_from_model=assume_from_model, **options)
    return find_in_model(builder.model, pattern, provider=provider)


def apply_at(
    model: AnyModel,
    pattern: Item,
    at: str,
    *,
    provider: str = "cpu",
    assume_from_model: bool = False,
) -> AnyModel:
    """Apply a pattern once, at one node; the rest of the model is left unchanged.

    Returns a model of the same kind.

    Args:
        model: as for `xoptim.optimize`, which is not changed, or a `GraphBuilder`, which is; its
            `report` lists the rewrite.
        pattern: name, class or instance.
        at: name of a node or of a result, or ``#17`` for its position. Any node of the match is
            accepted.
        provider: execution provider to optimize for.
        assume_from_model: also use the assumptions in the metadata of the model; a `GraphBuilder`
            has its own.

    Raises:
        NoMatchError: the pattern does not match there; ``explanations`` has the reasons.
        ModelError: the model cannot be read, or no node has the name ``at``.
        XoptimError: the pattern failed.
    """
    options = OptimizationOptions(patterns=pattern, provider=provider, strict=True)
    source = None if isinstance(model, GraphBuilder) else Source(model)
    builder = (
        model
        if isinstance(model, GraphBuilder)
        else GraphBuilder(source, assume_from_model=assume_from_model)
    )
    apply_in_model(builder.session.start(options), pattern, at)
    if source is None:
        return model
    result: AnyModel = source.give_back(builder.to_onnx(optimize=False))
    return result


def _prepared(
    model: Any,
    after: Selection,
    listener: Callable[[Application], None] | None = None,
    *,
    opset: int | Literal["newest"] | None = None,
    provider: str = "cpu",
    **assumptions: Any,
) -> GraphBuilder:
    if after is None and opset is None:
        builder = model if isinstance(model, GraphBuilder) else GraphBuilder(model, **assumptions)
        if builder is not model:
            # Optimizations also begin with this step: the shape after a guard is unknown.
            RemoveGuards().run(builder.model)
        return builder
    source = model.to_onnx(optimize=False) if isinstance(model, GraphBuilder) else model
    options = OptimizationOptions(
        patterns=after or "", opset=opset, provider=provider, on_application=listener, **assumptions
    )
    builder = GraphBuilder(source, optimization_options=options)
    builder.optimize()
    return builder
