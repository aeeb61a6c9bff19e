"""Models that almost match: each example changed in one respect at a time. The numbers must stay what they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import onnx

from xoptim.match.pattern import Example, PatternOptimization
from xoptim.testing import vary_attributes, vary_constants, vary_context, vary_dims, vary_types, vary_uses
from xoptim.testing.canonical import canonical
from xoptim.testing.feeds import Feeds, adapt, make_all_feeds
from xoptim.testing.harness import contradiction, report
from xoptim.testing.models import optimize_alone, provider_of
from xoptim.testing.numbers import NO_KERNEL, Numbers, same_numbers
from xoptim.testing.runtime import RUNTIME
from xoptim.testing.variant import FOREIGN, Case, Variant

PERTURBATIONS: tuple[Callable[[Case], Iterator[Variant]], ...] = (
    vary_attributes.drop_defaults,
    vary_attributes.write_defaults,
    vary_attributes.nudges,
    vary_constants.forms,
    vary_constants.nudges,
    vary_types.floats,
    vary_types.integers,
    vary_dims.unknown,
    vary_dims.symbolic,
    vary_dims.sizes,
    vary_dims.ranks,
    vary_uses.swapped,
    vary_uses.read_elsewhere,
    vary_uses.repeated_reads,
    vary_uses.inputs,
    vary_context.clashes,
    vary_context.opsets,
    vary_context.domains,
    vary_context.stacked,
    vary_context.in_branch,
    vary_context.in_function,
)
_SHOWN = 3
"""Failures that are shown in full."""


def near_misses(example: Example, pattern_class: type[PatternOptimization] | None = None) -> Iterator[Variant]:
    """Variants of an example, the same ones at each call.

    Args:
        example: the example.
        pattern_class: its pattern; tells the names that it gives to new results, and its operator sets.
    """
    yield from _variants(Case(example, pattern_class))


def _variants(case: Case) -> Iterator[Variant]:
    for perturbation in PERTURBATIONS:
        yield from perturbation(case)


def check_near_misses(pattern_class: type[PatternOptimization], example: Example) -> Counter[str]:
    """Make sure that a pattern does no harm to models that are almost like an example.

    Only this pattern and the cleaning that is always on are used. For each variant the optimizer must not fail, unless the
    variant is invalid, and the result must compute the same numbers, unless onnxruntime cannot run the variant.

    Returns:
        How many variants were ``tried``, on how many the pattern ``fired``, and how many could not be run and were
        ``skipped``; the same for each kind of change, as ``size: tried``.

    Raises:
        AssertionError: the message names each variant that fails, and shows the first ones with their models as text.
    """
    case = Case(example, pattern_class)
    counts: Counter[str] = Counter()
    failures: list[tuple[str, str]] = []
    for variant in _variants(case):
        outcome, failure = _check(case, pattern_class, variant)
        if failure:
            failures.append((variant.name, failure))
        for word in ("tried", *outcome):
            counts[word] += 1
            counts[f"{variant.family}: {word}"] += 1
    if failures:
        names = "\n".join(f"  {name}" for name, _ in failures)
        shown = "\n\n".join(text for _, text in failures[:_SHOWN])
        raise AssertionError(f"{len(failures)} of {counts['tried']} near misses fail:\n{names}\n\n{shown}")
    return counts


def _check(case: Case, pattern_class: type[PatternOptimization], variant: Variant) -> tuple[list[str], str]:
    """What happened (``fired``, ``skipped``), and what is wrong, if anything."""
    model = variant.model
    try:
        result = optimize_alone(pattern_class, model)
    except Exception as error:  # whatever a pattern may raise
        if not _makes_sense(case, variant):
            return ["skipped"], ""
        return [], report(pattern_class, f"{variant.name}: {type(error).__name__}: {error}", variant=model)
    fired = ["fired"] if result.applied else []
    found = result.model
    if variant.kept:
        lost = sum(n.op_type == variant.kept and n.domain == FOREIGN for n in found.graph.node) != 1
        failure = f"{variant.name}: the foreign {variant.kept} did not survive"
        return fired, report(pattern_class, failure, variant=model, found=found) if lost else ""
    if not fired and canonical(found) == canonical(model):
        return fired, ""
    numbers = _compare(case, pattern_class, variant, found)
    failure = numbers.difference
    if NO_KERNEL in numbers.skipped and not contradiction(model):  # what cannot be run must at least make sense still
        failure = contradiction(found)
    if failure:
        return fired, report(pattern_class, f"{variant.name}: {failure}", variant=model, found=found)
    return [*fired, *(["skipped"] if numbers.skipped else [])], ""


def _makes_sense(case: Case, variant: Variant) -> bool:
    """Whether onnxruntime runs a variant, or would if it had the kernels."""
    session = RUNTIME.load(variant.model)
    if isinstance(session, str):
        return NO_KERNEL in session and not contradiction(variant.model)
    return any(not isinstance(RUNTIME.run(session, feeds), str) for feeds in _feeds(case, variant))


def _compare(case: Case, pattern_class: type[PatternOptimization], variant: Variant, found: onnx.ModelProto) -> Numbers:
    numbers = same_numbers(variant.model, found, _feeds(case, variant), pattern_class.exactness)
    if provider_of(pattern_class) != "cpu" and "refuses the result" in numbers.difference:
        return Numbers(0, skipped=numbers.difference)
    return numbers


def _feeds(case: Case, variant: Variant) -> Iterator[Feeds]:
    """Feeds of the example as the variant can take them, then feeds of its own."""
    for position, feeds in enumerate(case.feeds):
        adapted = adapt(feeds, variant.model, variant.given)
        if adapted is None:
            break
        yield {**adapted, **(variant.overrides if position % 2 == 0 else {})}
    for feeds in make_all_feeds(variant.model, case.example.ranges):
        yield {**feeds, **variant.given}
