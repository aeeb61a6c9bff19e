"""Two patterns in one model: examples of both spliced so that they interact, and optimized in every
order.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from itertools import product
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import onnx
from onnx import ModelProto, ValueInfoProto

import xoptim
from xoptim.doc import pretty_onnx
from xoptim.engine.environment import DebugSettings
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.dtypes import GRADES, Exactness, weakest
from xoptim.graph.model import Model
from xoptim.match.rewrite import Example, Rewrite
from xoptim.optimizing.builder import GraphBuilder
from xoptim.testing.feeds import Feeds, Range, make_all_feeds
from xoptim.testing.harness import contradiction, report
from xoptim.testing.numbers import compare, counts, describe
from xoptim.testing.runtime import RUNTIME
from xoptim.testing.variant import (
    INFERENCE_ERRORS,
    all_graphs,
    parse,
    provider_of,
    rename,
    serialized,
)
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.session import Value

PatternClass: TypeAlias = "type[Rewrite]"
Kind: TypeAlias = Literal["chained", "shared", "beside"]
_NO_DEBUGGING = DebugSettings()
_UNSUPPORTED = (
    "Could not find an implementation",
    "Number of elements of input 'sizes' (0)",
)
"""What onnxruntime 1.32 says of valid models that it does not load: those with an operator without
a kernel, and those with a Resize whose sizes are computed and of unknown number.
Verification drops a rewrite that leads to one.
"""
_FEEDS = 2
"""Feeds on which each result is compared."""
_TRUSTING = {
    "GatherGrid": ": shape ",
    "GatherNDGrid": ": shape ",
    "MovementChain": "The input tensor cannot be reshaped",
    "ShapeBasedReshape": "The input tensor cannot be reshaped",
}
"""Patterns that take the first two axes of inputs for not empty (see ``docs/how-it-works.md``), and
how they fail there.
"""


class Splice(NamedTuple):
    """Examples of two patterns in one model.

    Attributes:
        kind: ``chained``: the second reads what the first computes; ``shared``: both read the same
            inputs; ``next to``: they are disconnected, because no types and shapes allow a
            connection.
        model: the model.
        ranges: of the values of its inputs.
    """

    kind: Kind
    model: ModelProto
    ranges: tuple[Range, ...]


class Outcome(NamedTuple):
    """A result of optimizing a splice.

    Attributes:
        order: the order of the patterns.
        model: the result.
        exactness: the promise about its numbers.
        applied: how often each pattern was applied.
    """

    order: str
    model: ModelProto
    exactness: Exactness
    applied: Counter[str]


# -------------------------------------------------------------------- splicing


def splices(first: PatternClass, second: PatternClass) -> list[Splice]:
    """The ways to splice examples of two patterns: at most one of each kind, and ``next to`` only
    when there is no other.

    Only ``chained`` distinguishes (first, second) from (second, first); the others take the pair in
    alphabetical order.
    """
    found: dict[Kind, Splice] = {}
    in_order = first.name() <= second.name()
    kinds: tuple[Kind, ...] = ("chained", "shared") if in_order else ("chained",)
    for one, other in product(first.examples, second.examples):
        for kind in kinds:
            if kind not in found:
                splice = _first_valid(first, second, one, other, kind)
                if splice is not None:
                    found[kind] = splice
        if len(found) == len(kinds):
            break
    if not found and in_order:
        combinations = product(first.examples, second.examples)
        attempts = (
            _first_valid(first, second, one, other, "beside") for one, other in combinations
        )
        found.update((s.kind, s) for s in [next(filter(None, attempts), None)] if s is not None)
    return list(found.values())


def have_a_common_opset(first: PatternClass, second: PatternClass) -> bool:
    """Whether examples of two patterns are valid in the same version of the operator set, which
    both patterns accept.
    """
    return any(
        True
        for one, other in product(first.examples, second.examples)
        for _ in _parts(first, second, one, other)
    )


def _parts(
    first: PatternClass, second: PatternClass, one: Example, other: Example
) -> Iterator[tuple[ModelProto, ModelProto]]:
    """The models of two examples in each version of the operator set in which both are valid."""
    for version in dict.fromkeys((max(one.opset, other.opset), one.opset, other.opset)):
        if not (first().unfit_for(version) or second().unfit_for(version)):
            a, b = _part(one, version, "a_"), _part(other, version, "b_")
            if a is not None and b is not None:
                yield a, b


def _first_valid(
    first: PatternClass, second: PatternClass, one: Example, other: Example, kind: Kind
) -> Splice | None:
    for a, b in _parts(first, second, one, other):
        splice = _spliced(a, b, _ranges(one, "a_"), _ranges(other, "b_"), kind)
        if splice is not None and not contradiction(splice.model):
            return splice
    return None


@lru_cache(maxsize=4096)
def _part(example: Example, opset: int, prefix: str) -> ModelProto | None:
    """The model of an example, all names and dimensions of which have a prefix.

    ``None`` when this opset does not allow it.
    """
    model = parse(example.before, opset, example.domains)
    try:
        onnx.checker.check_model(model, full_check=True)
    except INFERENCE_ERRORS:
        if opset != example.opset:
            return None
    rename([model.graph], lambda name: prefix + name)
    for value in _declarations(model):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = prefix + dim.dim_param
    return model


def _ranges(example: Example, prefix: str) -> tuple[Range, ...]:
    return tuple((prefix + name, low, high) for name, low, high in example.ranges)


def _declarations(model: ModelProto) -> Iterator[ValueInfoProto]:
    for graph in all_graphs(model.graph):
        yield from graph.input
        yield from graph.output
        yield from graph.value_info


def _spliced(
    a: ModelProto, b: ModelProto, ranges_a: Sequence[Range], ranges_b: Sequence[Range], kind: Kind
) -> Splice | None:
    sizes = _Sizes({d.dim_param for v in a.graph.input for d in v.type.tensor_type.shape.dim})
    given = {t.name for t in (*a.graph.initializer, *b.graph.initializer)}
    offers = [
        v for v in (a.graph.output if kind == "chained" else a.graph.input) if v.name not in given
    ]
    bounded = {name for name, _, _ in ranges_b}
    if kind == "shared":
        bounded |= {name for name, _, _ in ranges_a}
    links: dict[str, str] = {}
    for offer in offers if kind != "beside" else ():
        takers = [v for v in b.graph.input if v.name not in given | bounded | links.keys()]
        taker = next(
            (v for v in takers if offer.name not in bounded and sizes.unify(offer.type, v.type)),
            None,
        )
        if taker is not None:
            links[taker.name] = offer.name
    if not links and kind != "beside":
        return None
    second = onnx.GraphProto()
    second.CopyFrom(b.graph)
    rename([second], lambda name: links.get(name, name))
    model = ModelProto()
    model.CopyFrom(a)
    model.ir_version = max(a.ir_version, b.ir_version)
    known = {o.domain for o in a.opset_import}
    model.opset_import.extend(o for o in b.opset_import if o.domain not in known)
    graph, read = model.graph, set(links.values())
    if kind == "chained":
        _keep(graph, [v for v in a.graph.output if v.name not in read])
    graph.node.extend(second.node)
    graph.initializer.extend(second.initializer)
    graph.input.extend(v for v in second.input if v.name not in read)
    graph.output.extend(second.output)
    graph.value_info.extend(second.value_info)
    sizes.settle(model)
    return Splice(kind, model, (*ranges_a, *(r for r in ranges_b if r[0] not in links)))


def _keep(graph: onnx.GraphProto, outputs: Sequence[ValueInfoProto]) -> None:
    del graph.output[:]
    graph.output.extend(outputs)


class _Sizes:
    """The dimensions that must be equal so that two models can be spliced.

    Args:
        free: dimensions of the first model's inputs. They can be any, but its other ones follow
            from them.
    """

    def __init__(self, free: Collection[str]) -> None:
        self._free = free
        self._equal: dict[str, str | int] = {}

    def unify(self, a: onnx.TypeProto, b: onnx.TypeProto) -> bool:
        """Make two types the same, if possible; leaves the sizes unchanged otherwise."""
        left, right = a.tensor_type, b.tensor_type
        shaped = left.HasField("shape") and right.HasField("shape")
        if (
            not left.elem_type
            or left.elem_type != right.elem_type
            or len(left.shape.dim) != len(right.shape.dim)
            or not shaped
        ):
            return False
        before = dict(self._equal)
        for x, y in zip(left.shape.dim, right.shape.dim, strict=True):
            if not self._same(self._size(x), self._size(y)):
                self._equal = before
                return False
        return True

    def _size(self, dim: onnx.TensorShapeProto.Dimension) -> str | int | None:
        size: str | int | None = dim.dim_param or (
            dim.dim_value if dim.HasField("dim_value") else None
        )
        while isinstance(size, str) and size in self._equal:
            size = self._equal[size]
        return size

    def _same(self, x: str | int | None, y: str | int | None) -> bool:
        if x is None or y is None or x == y:
            return True
        if isinstance(y, str) and y.startswith("b_"):
            self._equal[y] = x
        elif isinstance(y, int) and x in self._free:
            self._equal[str(x)] = y
        else:
            return False
        return True

    def settle(self, model: ModelProto) -> None:
        """Write the unified sizes into all declarations of a model."""
        for value in _declarations(model):
            for dim in value.type.tensor_type.shape.dim:
                size = self._size(dim) if dim.dim_param else None
                if isinstance(size, int):
                    dim.dim_value = size
                elif size is not None:
                    dim.dim_param = size


# -------------------------------------------------------------------- optimizing


class PairCheck:
    """Checks pairs of patterns on spliced examples.

    Args:
        catalogue: all patterns, which must not break the result of two of them.
        inspect: called with each model after it was optimized, to check its tables.

    Attributes:
        counts: ``pairs``, ``splices`` and how many of each kind; pairs without any: ``mirrored``
            ones, which differ from the pair turned round in nothing, and those ``apart``, because
            no operator set has both; ``compared``: on how many splices numbers were compared, and
            ``results`` of how many optimizations; ``interacting``: splices that the order of the
            patterns makes a difference to; ``unrun``: splices that onnxruntime does not run.
    """

    def __init__(
        self, catalogue: Sequence[PatternClass], inspect: Callable[[Model], object] = lambda _: None
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._catalogue = list(catalogue)
        self._inspect = inspect

    def check(
        self, first: PatternClass, second: PatternClass, *, numbers: bool = True
    ) -> list[str]:
        """Check two patterns in one model; returns one text for each failure.

        Checked: every run terminates without an error; a second run changes nothing; both together,
        either first, and all patterns of the catalogue give a model that computes the same numbers.

        Args:
            first: a pattern, whose results the other one reads where possible.
            second: the other one, or the same.
            numbers: whether to run every order, and to compare numbers; if not, both patterns are
                applied together only.
        """
        self.counts["pairs"] += 1
        failures = []
        found = splices(first, second)
        if not found:
            self.counts["apart" if first.name() <= second.name() else "mirrored"] += 1
        for splice in found:
            self.counts.update(("splices", splice.kind))
            try:
                failure = self._check(first, second, splice, numbers)
            except Exception as error:  # a pattern may raise any type
                failure = f"{type(error).__name__}: {error}"
            if failure:
                failures.append(
                    report(
                        first, f"{splice.kind} with {second.name()}: {failure}", before=splice.model
                    )
                )
        return failures

    def _check(
        self, first: PatternClass, second: PatternClass, splice: Splice, numbers: bool
    ) -> str:
        together = self._optimize("together", splice.model, [first, second])
        if not numbers and splice.kind == "beside":
            return ""
        # A lowering comes last: in the next run, other patterns find what it wrote, and may fuse it
        # again.
        repeats = (first.phase == "lower") == (second.phase == "lower")
        again = self._optimize("again", together.model, [first, second])
        if repeats and serialized(again.model) != serialized(together.model):
            return (
                f"a second run changes the result of both together\n{pretty_onnx(together.model)}"
            )
        if not numbers:
            return ""
        results = [together, self._in_turn(splice.model, first, second)]
        if first is not second:
            results.append(self._in_turn(splice.model, second, first))
            self.counts["interacting"] += len({_signature(r.model) for r in results[1:]}) > 1
        results.append(self._optimize("catalogue", splice.model, self._catalogue))
        if serialized(
            self._optimize("again", results[-1].model, self._catalogue).model
        ) != serialized(results[-1].model):
            return "a second run changes the result of the catalogue"
        feeds = [
            f
            for _, f in zip(
                range(2 * _FEEDS), make_all_feeds(splice.model, splice.ranges), strict=False
            )
        ]
        return self._compare(splice.model, feeds, results)

    def _in_turn(self, model: ModelProto, one: PatternClass, other: PatternClass) -> Outcome:
        before = self._optimize("", model, [one])
        after = self._optimize("", before.model, [other])
        grade = weakest((before.exactness, after.exactness))
        return Outcome(
            f"{one.name()} before {other.name()}",
            after.model,
            grade,
            before.applied + after.applied,
        )

    def _optimize(self, order: str, model: ModelProto, patterns: Sequence[PatternClass]) -> Outcome:
        providers = {provider_of(p) for p in patterns} - {"cpu"} if len(patterns) <= 2 else set()
        chosen, provider = list(dict.fromkeys(patterns)), min(providers, default="cpu")
        options = OptimizationOptions(
            patterns=chosen, provider=provider, strict=True, debug=_NO_DEBUGGING
        )
        builder = GraphBuilder(model, optimization_options=options)
        builder.optimize()
        self._inspect(builder.model)
        told = builder.report()
        result = builder.to_onnx(optimize=False)
        builder.dispose()
        return Outcome(order, result, told.exactness, Counter(told.applied))

    # ---------------------------------------------------------------- numbers

    def _compare(
        self, model: ModelProto, all_feeds: Sequence[Feeds], outcomes: Sequence[Outcome]
    ) -> str:
        """Failures in the numbers of some results, each of which is run once for all orders that
        lead to it.
        """
        distinct: dict[bytes, Outcome] = {}
        for outcome in outcomes:
            known = distinct.setdefault(_signature(outcome.model), outcome)
            if GRADES.index(outcome.exactness) < GRADES.index(known.exactness):
                distinct[_signature(outcome.model)] = outcome
        distinct.pop(_signature(model), None)
        self.counts["results"] += len(outcomes)
        runs = 0
        models = [model, *(o.model for o in distinct.values())]
        for feeds, found in _run_together(models, all_feeds):
            expected = found[0]
            if isinstance(expected, str):
                continue
            runs += 1
            names = [v.name for v in model.graph.output]
            for outcome, actual in zip(distinct.values(), found[1:], strict=True):
                if isinstance(actual, str):
                    failure = "" if any(text in actual for text in _UNSUPPORTED) else actual
                else:
                    failure = compare(names, expected, actual, outcome.exactness)
                if (
                    failure
                    and counts(model, outcome.model, feeds, expected, failure)
                    and not _is_excepted(outcome, feeds, failure)
                    and not _is_rounding(model, outcome, feeds)
                ):
                    text = f"{outcome.order} ({outcome.exactness}): {failure}\non {describe(feeds)}"
                    return f"{text}\n{pretty_onnx(outcome.model)}"
            if runs == _FEEDS:
                break
        self.counts["compared" if runs else "unrun"] += 1
        return ""


def _is_excepted(outcome: Outcome, feeds: Feeds, failure: str) -> bool:
    """Whether a result fails because a pattern takes an axis for not empty that is one of the first
    two of an input.
    """
    arrays = [value for value in feeds.values() if isinstance(value, np.ndarray)]
    is_empty = any(0 in array.shape[:2] for array in arrays)
    return is_empty and any(
        text in failure for name, text in _TRUSTING.items() if name in outcome.applied
    )


def _is_rounding(model: ModelProto, outcome: Outcome, feeds: Feeds) -> bool:
    """Whether verification finds that the difference of a result is rounding, or may be rounding.

    A node of one pattern may amplify the rounding errors of the other one's, as an activation near
    its zero does. A model that does not run tells nothing.
    """
    options = VerificationOptions(feeds=feeds, exactness=outcome.exactness)
    report = xoptim.verify(model, outcome.model, options)
    return report.status == "equal" or report.cause == "evidence"


def _signature(model: ModelProto) -> bytes:
    """Bytes that are equal for models that differ in names of nodes and in metadata only."""
    graph = onnx.GraphProto()
    graph.CopyFrom(model.graph)
    del graph.value_info[:]
    for inner in all_graphs(graph):
        for node in inner.node:
            node.ClearField("name")
            del node.metadata_props[:]
    return graph.SerializeToString(deterministic=True)


def _run_together(
    models: Sequence[ModelProto], all_feeds: Sequence[Feeds]
) -> Iterator[tuple[Feeds, list[list[Value] | str]]]:
    """Results of models that take the same feeds.

    One session runs them all, unless one of them makes it fail.
    """
    stacked = RUNTIME.load(_stacked(models))
    single = None
    counts = [len(m.graph.output) for m in models]
    for feeds in all_feeds:
        found = stacked if isinstance(stacked, str) else RUNTIME.run(stacked, feeds)
        if isinstance(found, list):
            rest = iter(found)
            yield feeds, [[next(rest) for _ in range(count)] for count in counts]
            continue
        if single is None:
            single = [RUNTIME.load(model) for model in models]
        yield feeds, [s if isinstance(s, str) else RUNTIME.run(s, feeds) for s in single]


def _stacked(models: Sequence[ModelProto]) -> ModelProto:
    """One model that computes the outputs of all, which have the inputs in common."""
    whole = ModelProto(ir_version=max(m.ir_version for m in models))
    whole.graph.name = "stacked"
    inputs = {v.name for v in models[0].graph.input}
    whole.graph.input.extend(models[0].graph.input)
    for number, model in enumerate(models):
        graph = onnx.GraphProto()
        graph.CopyFrom(model.graph)
        rename([graph], lambda name, number=number: name if name in inputs else f"m{number}_{name}")  # type: ignore[misc]
        whole.graph.node.extend(graph.node)
        whole.graph.initializer.extend(graph.initializer)
        whole.graph.output.extend(graph.output)
        known = {o.domain for o in whole.opset_import}
        whole.opset_import.extend(o for o in model.opset_import if o.domain not in known)
    return whole
