"""Functions for all commands with the option ``--target``."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from xoptim import Preparation, workflow
from xoptim.api.advice import Advice
from xoptim.api.preparing import Source
from xoptim.targets import Placement, Target, named

from .options import option
from .preparation import sizes_of

PLACING: Final = ("software_device", "custom_op_lib")
"""Parameters with an effect on the placement of nodes, even if no model is run."""
_PROCESSOR: Final = ("cpu", "cpuexecutionprovider")
_MAX_OPERATORS: Final = 6
"""Maximum number of operators that a summary names."""
_MAX_NAMED: Final = 3
"""Maximum number of operators that the map of a placement names between two partitions."""


def max_left_option() -> Any:
    """The option ``--max-left``."""
    text = "Exit code 1 when more than N nodes are left to other providers."
    return option(text, type=click.IntRange(0))


def max_partitions_option() -> Any:
    """The option ``--max-partitions``."""
    return option("Exit code 1 when there are more than N partitions.", type=click.IntRange(0))


def check_target(name: str, providers: Sequence[str], *, needs_contrib: bool = False) -> None:
    """Raise `click.UsageError` for options that contradict a target.

    Args:
        name: the name of the target; empty for none.
        providers: execution providers that run the model.
        needs_contrib: whether a contrib operator of onnxruntime reads 4-bit weights.
    """
    if not name:
        return
    target = named(name)
    wrong = next((provider for provider in providers if not _is_of(target, provider)), None)
    if wrong is not None:
        raise click.UsageError(
            f"--provider {wrong} does not run models on {Advice('target', name)}; remove --provider"
        )
    if needs_contrib and target.needs.standard_operators:
        raise click.UsageError(
            f"{Advice('precision', 'int4')} writes com.microsoft::MatMulNBits, which {name} does "
            f"not run; {Advice('compute', 'float16')} writes standard operators"
        )


def provider_there(name: str, provider: str) -> str:
    """The provider that runs models: the provider of the target, if ``name`` is not empty.

    Raises `click.UsageError` for a target on which no model can be run, and for a provider of
    another target.
    """
    if not name:
        return provider
    check_target(name, (provider,))
    target = named(name)
    if not target.provider:
        raise click.UsageError(
            f"{Advice('target', name)}: models cannot be run there; xoptim only has a table of its "
            "operators"
        )
    return target.provider


def _is_of(target: Target, provider: str) -> bool:
    """Whether a provider fits a target. The CPU fits each target.

    Each provider fits a target without a provider.
    """
    own = (target.provider, target.full_provider.lower())
    return not target.provider or provider.lower() in (*_PROCESSOR, *own)


def fixed_source(model: Path, fix: tuple[str, ...]) -> Source:
    """A model, with the sizes of ``--fix`` written into it."""
    preparation = Preparation(fix=sizes_of(fix))
    return (
        Source(model)
        if preparation.is_empty
        else workflow.preparing.prepared_source(model, preparation)
    )


def exceeded(placement: Placement, max_left: int | None, max_partitions: int | None) -> list[str]:
    """The limits that a placement exceeds, in words.

    A model that does not compile exceeds all limits.
    """
    limits = (
        ("left", len(placement.left), max_left),
        ("partitions", placement.partitions, max_partitions),
    )
    return [
        (
            f"{word}: {count}, at most {limit} allowed"
            if placement.compiles
            else f"{word}: at most {limit} allowed"
        )
        for word, count, limit in limits
        if limit is not None and (count > limit or not placement.compiles)
    ]


def left_texts(placement: Placement) -> Iterator[str]:
    """The operators that a target does not take, the most frequent ones first, with advice."""
    counts = Counter(
        (node.label, node.reason, node.advice)
        for node in placement.left
        if placement.compiles or node.reason
    )
    for (operator, reason, advice), count in counts.most_common(_MAX_OPERATORS):
        cause = reason or "unknown reason"
        hint = f" (what would help: {advice})" if advice else ""
        yield f"{operator} {count}: {cause}{hint}"
    if len(counts) > _MAX_OPERATORS:
        yield f"{len(counts) - _MAX_OPERATORS} more, which `xopt place` lists"


def map_of(placement: Placement) -> str:
    """The partitions of a model and the operators of other providers between them.

    Partitions are in the order of their first nodes: ``[118 nodes] cpu: Cast 1 [3 nodes]``. Nodes
    that compute shapes, and nodes that onnxruntime computes ahead of time, are skipped. The text is
    empty for fewer than two parts, and for a model that does not compile.
    """
    sizes = Counter(node.partition for node in placement.taken)
    shapes_and_absent = {*placement.shapes, *placement.absent}
    parts: list[int | tuple[str, Counter[str]]] = []
    seen: set[int] = set()
    for node in placement.nodes:
        if node.is_taken:
            if node.partition not in seen:
                parts.append(node.partition)
            seen.add(node.partition)
        elif node not in shapes_and_absent:
            provider = node.provider.lower().removesuffix("executionprovider")
            last = parts[-1] if parts else None
            if not isinstance(last, tuple) or last[0] != provider:
                last = provider, Counter()
                parts.append(last)
            last[1][node.label] += 1
    if len(parts) < 2 or not placement.compiles:
        return ""
    return " ".join(
        _in_brackets(sizes[part]) if isinstance(part, int) else _elsewhere(*part) for part in parts
    )


def _in_brackets(count: int) -> str:
    return f"[{count} node{'' if count == 1 else 's'}]"


def _elsewhere(provider: str, counts: Counter[str]) -> str:
    """A provider and its operators, of which the most frequent ones are named."""
    names = [f"{name} {count}" for name, count in counts.most_common(_MAX_NAMED)]
    more = counts.total() - sum(count for _, count in counts.most_common(_MAX_NAMED))
    if more:
        names.append(f"{more} more")
    return f"{provider}: {', '.join(names)}"
