"""Models that almost match: each example, changed in one respect at a time.

Optimization must not change their numbers.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import numpy as np
import onnx

from xoptim.api.optimizing import optimize
from xoptim.engine.applier import TAG
from xoptim.facts.dtypes import Exactness
from xoptim.match.quantization import QuantizationPattern
from xoptim.match.rewrite import Example, Rewrite
from xoptim.proof.grades import Grade
from xoptim.testing import (
    vary_attributes,
    vary_computations,
    vary_constants,
    vary_context,
    vary_operands,
    vary_types,
)
from xoptim.testing.canonical import canonical
from xoptim.testing.digits import is_better, is_rounding, is_within_steps, lost_digits
from xoptim.testing.feeds import (
    PLAIN,
    Feeds,
    Values,
    adapt,
    is_real,
    make_all_feeds,
    never_ends,
    tensor_specs,
)
from xoptim.testing.harness import check_example, contradiction, report
from xoptim.testing.numbers import NO_KERNEL, Numbers, never, same_numbers, wrong_facts
from xoptim.testing.proofs import require_grade
from xoptim.testing.runtime import RUNTIME
from xoptim.testing.variant import (
    FOREIGN,
    Case,
    OptimizedAlone,
    Variant,
    all_nodes,
    optimize_alone,
    provider_of,
    serialized,
)

PERTURBATIONS: tuple[Callable[[Case], Iterator[Variant]], ...] = (
    *(vary_attributes.drop_defaults, vary_attributes.write_defaults, vary_attributes.nudges),
    *(vary_constants.forms, vary_constants.nudges),
    *(
        vary_types.floats,
        vary_types.integers,
        vary_types.unknown,
        vary_types.symbolic,
        vary_types.sizes,
        vary_types.ranks,
    ),
    *(
        vary_operands.swapped,
        vary_operands.read_elsewhere,
        vary_operands.repeated_reads,
        vary_operands.inputs,
    ),
    *(vary_context.clashes, vary_context.opsets, vary_context.domains),
    *(vary_context.stacked, vary_context.in_branch, vary_context.in_function),
    *(vary_types.tails, vary_types.large_integers),
    *(vary_constants.steps, vary_constants.ends, vary_constants.products, vary_constants.sums),
    *(
        vary_operands.inserted,
        vary_operands.repeated,
        vary_computations.higher_rank,
        vary_computations.counts,
        vary_computations.sizes,
    ),
    *(vary_operands.empty, vary_operands.targets, vary_operands.computed, vary_operands.ranges),
    *(vary_context.constants_overridden, vary_context.results_overridden),
    vary_attributes.siblings,
)
_TRUTHS = ("empty", "range", "detour", "count", "resize", "operator")
"""Families in which inferred facts are compared with computed results."""
_OUT_OF_RANGE = ("end", "product", "sum", "values")
"""Families in which intermediate results of the original itself may overflow."""
PRESET = "default"
SHARE = 23
"""One variant in this many is also optimized with the preset: a prime number, to select other kinds
in each example.
"""
_SHOWN = 3
"""Number of failures that are shown in full."""
_FIRST = 3
"""Number of feeds of each kind, the example's and new ones, that run first for a variant with other
inputs.
"""


def near_misses(example: Example, pattern_class: type[Rewrite] | None = None) -> Iterator[Variant]:
    """Variants of an example, the same ones at each call.

    Its pattern determines names of new results and the operator sets.
    """
    case = Case(example, pattern_class)
    for perturbation in PERTURBATIONS:
        yield from perturbation(case)


def check_pattern(pattern_class: type[Rewrite], grade: Grade = "only run") -> Counter[str]:
    """Check all examples of a pattern, and models that almost match.

    Raises `AssertionError` when a check fails, or there is no example.

    Args:
        pattern_class: the pattern.
        grade: the grade of proof that each example must reach: ``same bits``, ``over real
            numbers``, ``over real numbers, constants folded``, or ``only run`` for no proof.

    Returns:
        The counts of `check_near_misses`, of all examples.
    """
    if not pattern_class.examples:
        raise AssertionError(
            f"{pattern_class.__name__} has no examples, so nothing shows that it matches: add "
            "`examples = Example.only(before, after)`"
        )
    counts: Counter[str] = Counter()
    for example in pattern_class.examples:
        check_example(pattern_class, example)
        if grade != "only run":
            require_grade(pattern_class, example, grade)
        counts += check_near_misses(pattern_class, example)
    return counts


def check_near_misses(pattern_class: type[Rewrite], example: Example) -> Counter[str]:
    """Check that a pattern does not change the results of models that are similar to an example.

    Each variant is optimized with this pattern and the default cleaning, and one in `SHARE` also
    with the default preset. The optimizer must not fail, unless the variant is invalid; the result
    must compute the same numbers, unless onnxruntime cannot run the variant; and a second run must
    change nothing. The message of an `AssertionError` names each variant that fails, and shows the
    first ones with their models as text.

    Returns:
        The number of variants that were ``tried``, of those on which the pattern ``fired``, and of
        those that could not be run and were ``skipped``; the same for each kind of change, as
        ``size: tried``.
    """
    case = Case(example, pattern_class)
    counts: Counter[str] = Counter()
    failures: list[tuple[str, str]] = []
    for variant in near_misses(example, pattern_class):
        counts[f"{variant.family}: tried"] += 1
        outcome, failure = check_variant(case, variant)
        if not failure and counts["tried"] % SHARE == 0:
            failure = _check_preset(case, variant)
        if failure:
            failures.append((variant.name, failure))
        counts["tried"] += 1
        for word in outcome:
            counts[word] += 1
            counts[f"{variant.family}: {word}"] += 1
    if failures:
        names = "\n".join(f"  {name}" for name, _ in failures)
        shown = "\n\n".join(text for _, text in failures[:_SHOWN])
        raise AssertionError(
            f"{len(failures)} of {counts['tried']} near misses fail:\n{names}\n\n{shown}"
        )
    return counts


def check_variant(case: Case, variant: Variant) -> tuple[list[str], str]:
    """Optimize one variant with the pattern alone.

    Returns the events (``fired``, ``skipped``), and the failure, if any.

    Raises `ValueError` when the case has no pattern.
    """
    pattern_class, model = case.pattern, variant.model
    if pattern_class is None:
        raise ValueError("the case has no pattern")
    try:
        result = _optimized(case, model)
        runs_twice = result.applied and variant.family not in _OUT_OF_RANGE
        again = _optimized(case, result.model).model if runs_twice else result.model
    except Exception as error:  # a pattern may raise any type
        if not _makes_sense(case, variant):
            return ["skipped"], ""
        return [], report(
            pattern_class, f"{variant.name}: {type(error).__name__}: {error}", variant=model
        )
    events = ["fired"] if result.applied else []
    after = result.model
    if variant.kept:
        is_lost = (
            sum(n.op_type == variant.kept and n.domain == FOREIGN for n in after.graph.node) != 1
        )
        failure = f"{variant.name}: the foreign {variant.kept} did not survive"
        return events, report(pattern_class, failure, variant=model, found=after) if is_lost else ""
    if not events and _is_same(after, model):
        fault = wrong_facts(model, _feeds(case, variant)) if variant.family in _TRUTHS else ""
        return events, (
            report(pattern_class, f"{variant.name}: {fault}", variant=model) if fault else ""
        )
    numbers = compare(case, variant, after, pattern_class.exactness)
    failure = numbers.difference
    # it cannot be run, but its types must agree
    if NO_KERNEL in numbers.skipped and not contradiction(model):
        failure = contradiction(after)
    if not failure and again != after:
        failure = "a second run changes the result"
    if not failure and variant.family in _TRUTHS:
        failure = wrong_facts(model, _feeds(case, variant))
    if failure:
        return events, report(
            pattern_class, f"{variant.name}: {failure}", variant=model, found=after
        )
    return [*events, *(["skipped"] if numbers.skipped else [])], ""


def _check_preset(case: Case, variant: Variant) -> str:
    """Optimize one variant with all patterns of the default preset.

    Returns the failure, empty when there is none.
    """
    model = variant.model
    try:
        after = _optimized(case, model, PRESET).model
        again = _optimized(case, after, PRESET).model
    except Exception as error:  # a pattern may raise any type
        after, failure = (
            model,
            f"{type(error).__name__}: {error}" if _makes_sense(case, variant) else "",
        )
    else:
        changed = not variant.kept and not _is_same(after, model)
        failure = compare(case, variant, after, "rounding").difference if changed else ""
        failure = failure or ("" if again == after else "a second run changes the result")
    if not failure or case.pattern is None:
        return ""
    names = ", ".join(sorted(_patterns_in(after))) or "no pattern"
    return report(
        case.pattern,
        f"{variant.name} with {PRESET} ({names} applied): {failure}",
        variant=model,
        found=after,
    )


def _patterns_in(model: onnx.ModelProto) -> set[str]:
    """The patterns that created nodes of a model, from the tags of nodes."""
    entries = (entry for node in all_nodes(model) for entry in node.metadata_props)
    return {entry.value for entry in entries if entry.key == TAG}


def _optimized(case: Case, model: onnx.ModelProto, preset: str = "") -> OptimizedAlone:
    """A model optimized with the pattern alone or with a preset; cached, since many variants and
    their results are equal.
    """
    key = preset, serialized(model)
    if key not in case.optimized and preset:
        case.optimized[key] = OptimizedAlone(
            optimize(model, patterns=preset, assume_from_model=True, strict=True), 0, ()
        )
    elif key not in case.optimized:
        case.optimized[key] = optimize_alone(case.pattern, model)
    return case.optimized[key]


def _is_same(optimized: onnx.ModelProto, model: onnx.ModelProto) -> bool:
    return optimized == model or canonical(optimized) == canonical(model)


def _makes_sense(case: Case, variant: Variant) -> bool:
    """Whether onnxruntime runs a variant, or would if it had the kernels."""
    session = RUNTIME.load(variant.model)
    if isinstance(session, str):
        return NO_KERNEL in session and not contradiction(variant.model)
    return any(not isinstance(RUNTIME.run(session, feeds), str) for feeds in _feeds(case, variant))


def compare(case: Case, variant: Variant, after: onnx.ModelProto, grade: Exactness) -> Numbers:
    """Compare a variant with its optimized model, on the feeds of the example and its own.

    ``grade`` is the promised exactness.
    """
    pardon = (
        partial(is_better, variant.model, after, exactness=grade)
        if variant.family in _OUT_OF_RANGE
        else never
    )
    if case.pattern is not None and issubclass(case.pattern, QuantizationPattern):
        pardon = partial(
            is_rounding, variant.model, after, ranges=case.example.ranges, bits=case.pattern.bits
        )
    if case.pattern is not None and case.pattern.integer_steps:
        pardon = partial(is_within_steps, variant.model, after, steps=case.pattern.integer_steps)
    numbers = same_numbers(variant.model, after, _feeds(case, variant), grade, pardon=pardon)
    if (
        case.pattern is not None
        and provider_of(case.pattern) != "cpu"
        and "refuses the result" in numbers.difference
    ):
        return Numbers(0, skipped=numbers.difference)
    if (
        not numbers.difference
        and grade in ("exact", "rounding")
        and any(values.digits for values in variant.values)
    ):
        return numbers._replace(difference=lost_digits(variant.model, after, _feeds(case, variant)))
    return numbers


def _feeds(case: Case, variant: Variant) -> Iterator[Feeds]:
    """Feeds of the example, adapted to the variant, then new feeds.

    If the variant has values, the first two feeds are repeated with each of them.
    """
    for feeds in (
        islice(_plain_feeds(case, variant), 2) if variant.values else _plain_feeds(case, variant)
    ):
        for values in variant.values or (PLAIN,):
            yield _valued(feeds, values, {name for name, _, _ in case.example.ranges})


def _valued(feeds: Feeds, values: Values, ranged: set[str]) -> Feeds:
    """The feeds with other numbers, except for inputs to which the example gives a range."""
    kinds: Counter[str] = Counter()
    result = dict(feeds)
    for name, value in feeds.items():
        if isinstance(value, np.ndarray) and name not in ranged:
            kind = "real" if is_real(value) else value.dtype.kind
            result[name] = values.change(value, kinds[kind])
            kinds[kind] += 1
    return result


def _plain_feeds(case: Case, variant: Variant) -> Iterator[Feeds]:
    new_feeds = (
        {**feeds, **variant.given} for feeds in make_all_feeds(variant.model, case.example.ranges)
    )
    adapted = _adapted_feeds(case, variant)
    if _shapes(variant.model) != _shapes(case.model):
        # The feeds of the example all have the sizes that it fixes, even where the variant leaves
        # them open.
        yield from islice(adapted, _FIRST)
        yield from islice(new_feeds, _FIRST)
    yield from adapted
    yield from new_feeds


def _shapes(model: onnx.ModelProto) -> dict[str, onnx.ValueInfoProto]:
    return {value.name: value for value in model.graph.input}


def _adapted_feeds(case: Case, variant: Variant) -> Iterator[Feeds]:
    """Feeds of the example, with the ranks and types of the variant's inputs."""
    specs = tensor_specs(variant.model)
    for position, feeds in enumerate(case.feeds):
        adapted = adapt(feeds, specs, variant.given)
        if adapted is None:
            break
        # Without elements, any overridden size would agree with the data: override nothing then.
        is_filled = all(value.size for value in adapted.values() if isinstance(value, np.ndarray))
        if not never_ends(variant.model, adapted):
            yield {**adapted, **(variant.overrides if position % 2 == 0 and is_filled else {})}
