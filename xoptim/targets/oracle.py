"""Finds the nodes of a model that a target takes, by asking its provider or by a table."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import onnx
from google.protobuf.message import EncodeError

from xoptim.facts.errors import ModelError
from xoptim.targets.listing import (
    ListedNode,
    listed,
    named,
    number_in,
    partitions,
    readable,
    with_numbers,
)
from xoptim.targets.placement import PlacedNode, Placement
from xoptim.targets.primitives import replaced, with_primitives
from xoptim.targets.process import Answer, Question, ask
from xoptim.targets.reasons import explained, moved_by_onnxruntime, refusals
from xoptim.targets.tables import by_table
from xoptim.targets.target import Target

DEFAULT_TIMEOUT: Final = 600.0
"""Seconds within which a provider must answer, by default."""


def place(
    model: onnx.ModelProto,
    target: Target,
    base_dir: Path | None = None,
    *,
    software_device: bool = False,
    seconds: float = DEFAULT_TIMEOUT,
    custom_op_libs: tuple[str, ...] = (),
) -> Placement:
    """The nodes of a model that a target takes, their parts, and the reasons why the target does
    not take the other nodes.

    The provider is asked in a process of its own. onnxruntime applies those of its optimizations
    that do not depend on a provider; nodes that it folds or merges are counted separately.
    An operator without a kernel is placed as the simpler operators that define it. For a target
    without a provider, a table answers.

    Args:
        model: left unchanged.
        target: the target to ask.
        base_dir: folder of external data.
        software_device: whether a provider without a device may compute on the CPU (``webgpu``).
        seconds: time limit for the answer of the provider.
        custom_op_libs: files of custom operator libraries.

    Raises:
        ModelError: the model cannot be read, or has more than 2 GB of weights in the protobuf.
        ProviderUnavailable: the provider is not installed, cannot be loaded, or has no device.
        PlacementError: the provider does not answer in time.
    """
    start = time.perf_counter()
    numbered, names = with_numbers(model)
    nodes = listed(numbered, names, base_dir)
    if target.table:
        return by_table(nodes, target)
    folder = None if base_dir is None else base_dir.absolute()
    question = Question(
        "place",
        target.provider,
        software_device,
        _serialized(numbered),
        folder,
        custom_op_libs=custom_op_libs,
    )
    placement = _asked(question, nodes, names, target, seconds)
    return replace(placement, seconds=time.perf_counter() - start)


def _asked(
    question: Question,
    nodes: Sequence[ListedNode],
    names: Sequence[str],
    target: Target,
    seconds: float,
) -> Placement:
    """The placement that a provider states, of a model with simpler operators where needed."""
    answer, log = ask(question, seconds)
    node_names = {name for _, part in answer.parts for name in part}
    operators = replaced(nodes, _numbers(answer), node_names)
    if not operators:
        return _placement(nodes, target, answer, log)
    numbered = onnx.ModelProto.FromString(question.model)
    simpler = with_primitives(named(numbered, names), operators)
    if simpler is None:
        return _placement(nodes, target, answer, log)
    numbered, new_names = with_numbers(simpler)
    nodes = listed(numbered, new_names, question.base_dir)
    answer, log = ask(replace(question, model=_serialized(numbered)), seconds)
    return _placement(nodes, target, answer, log)


def _numbers(answer: Answer) -> set[int]:
    """The numbers of the nodes that some provider runs."""
    numbers = {number_in(name) for _, names in answer.parts for name in names}
    return {number for number in numbers if number is not None}


def _serialized(model: onnx.ModelProto) -> bytes:
    try:
        data: bytes = model.SerializeToString()
    except (EncodeError, ValueError) as error:
        raise ModelError(
            "the model cannot be given to another process: its weights take more than 2 GB; "
            "`xopt MODEL --external-data` stores them in a file next to it"
        ) from error
    return data


def _placement(
    nodes: Sequence[ListedNode],
    target: Target,
    answer: Answer,
    log: Sequence[str],
) -> Placement:
    refused_by = refusals(nodes, log)
    if answer.error:
        reasons = (refused_by.get(number, "") for number in range(len(nodes)))
        refused = (
            _left(node, "", reason, target) for node, reason in zip(nodes, reasons, strict=True)
        )
        error = readable(answer.error, nodes)
        return Placement(target.name, tuple(refused), compiles=False, error=error)
    providers: dict[int, str] = {}
    parts: dict[int, int] = {}
    lengths: list[int] = []
    for provider, names in answer.parts:
        numbers = {number for name in names if (number := number_in(name)) is not None}
        providers.update(dict.fromkeys(numbers, provider))
        if provider == target.full_provider:
            parts.update(dict.fromkeys(numbers, len(lengths)))
            lengths.append(len(names))
    shapes = {number for number, node in enumerate(nodes) if node.is_shape_arithmetic}
    shapes |= moved_by_onnxruntime(log)
    if max(lengths, default=1) == 1:  # the provider runs one node after the other
        left_numbers = {
            number for number in providers if number not in parts and number not in shapes
        }
        parts = partitions(nodes, parts, left_numbers)
    placed = _placed(nodes, providers, parts, shapes, refused_by, target)
    return Placement(target.name, tuple(placed))


def _placed(
    nodes: Sequence[ListedNode],
    providers: Mapping[int, str],
    parts: Mapping[int, int],
    shapes: set[int],
    refused_by: Mapping[int, str],
    target: Target,
) -> list[PlacedNode]:
    all_placed: list[PlacedNode] = []
    for number, node in enumerate(nodes):
        provider = providers.get(number, "")
        if number in parts:
            placed = PlacedNode(node.name, node.op_type, node.domain, provider, parts[number])
        elif not provider:
            placed = PlacedNode(node.name, node.op_type, node.domain)
        else:
            placed = _left(node, provider, refused_by.get(number, ""), target)
        all_placed.append(replace(placed, is_shape_arithmetic=number in shapes))
    return all_placed


def _left(node: ListedNode, provider: str, refusal: str, target: Target) -> PlacedNode:
    """A node that a target does not take, with the reason and what would help."""
    reason, advice = explained(node, refusal, target)
    return PlacedNode(
        node.name,
        node.op_type,
        node.domain,
        provider,
        reason=reason,
        advice=advice,
        is_shape_arithmetic=node.is_shape_arithmetic,
    )
