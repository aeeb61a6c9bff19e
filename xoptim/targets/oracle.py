"""Which nodes of a model a target takes: its provider is asked, or a table without one."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import onnx
from google.protobuf.message import EncodeError

from xoptim.facts.dtypes import type_name
from xoptim.facts.errors import ModelError
from xoptim.facts.schema import schema
from xoptim.targets.listing import ListedNode, listed, named, number_in, partitions, readable, with_numbers
from xoptim.targets.placement import PlacedNode, Placement
from xoptim.targets.primitives import replaced, with_primitives
from xoptim.targets.process import Answer, Question, ask
from xoptim.targets.tables import limits_of, table_of
from xoptim.targets.target import Target

PATIENCE: Final = 600.0
"""Seconds that a provider has by default to say which nodes it takes."""
_NOT_FIXED: Final = ("its shapes are not fixed", "--fix NAME=SIZE")
"""A reason why a node is left, and what helps."""
_NO_KERNEL: Final = re.compile(r"kernel not found in registries for Op type: \S+ node name: (\S+)")
_REFUSED: Final = re.compile(r"failed for node `(\S+)` of type `(\S+)` with error code (\d+)")
_TO_PROCESSOR: Final = re.compile(r"Force fallback to CPU execution for node: (\S+)")


def place(
    model: onnx.ModelProto,
    target: Target,
    base_dir: Path | None = None,
    *,
    software_device: bool = False,
    seconds: float = PATIENCE,
    custom_op_libs: tuple[str, ...] = (),
) -> Placement:
    """The nodes of a model that a target takes, in how many parts, and why it leaves the others.

    The provider is asked in a process of its own, with the optimizations of onnxruntime that do not
    depend on a provider: what these compute ahead or merge counts apart. Operators without a kernel
    that are defined by simpler ones are placed as those. A target without a provider is answered by
    a table.

    Args:
        model: left unchanged.
        target: where it will run.
        base_dir: folder of external data.
        software_device: whether a provider without a device may compute on the processor
            (``webgpu``).
        seconds: that the provider has.
        custom_op_libs: libraries of operators, by file.

    Raises:
        ModelError: the model cannot be read, or has more than 2 GB of weights in the protobuf.
        ProviderUnavailable: the provider is not installed, cannot be loaded, or has no device.
        PlacementError: it does not answer in time.
    """
    start = time.perf_counter()
    numbered, names = with_numbers(model)
    nodes = listed(numbered, names, base_dir)
    if target.table:
        found = _by_table(nodes, target)
        return replace(found, seconds=time.perf_counter() - start)
    folder = None if base_dir is None else base_dir.absolute()
    question = Question(
        "place",
        target.provider,
        software_device,
        _serialized(numbered),
        folder,
        custom_op_libs=custom_op_libs,
    )
    answer, log = ask(question, seconds)
    known = {name for _, part in answer.parts for name in part}
    operators = replaced(nodes, _numbers(answer), known)
    simpler = with_primitives(named(numbered, names), operators) if operators else None
    if simpler is not None:
        numbered, names = with_numbers(simpler)
        nodes = listed(numbered, names, base_dir)
        answer, log = ask(replace(question, model=_serialized(numbered)), seconds)
    found = _placement(nodes, target, answer, log)
    return replace(found, seconds=time.perf_counter() - start)


def _numbers(answer: Answer) -> set[int]:
    """The numbers of the nodes that some provider runs."""
    found = {number_in(name) for _, names in answer.parts for name in names}
    return {number for number in found if number is not None}


def _serialized(model: onnx.ModelProto) -> bytes:
    try:
        data: bytes = model.SerializeToString()
    except (EncodeError, ValueError) as error:
        raise ModelError(
            "the model cannot be given to another process: its weights take more than 2 GB; "
            "`xopt MODEL --external-data` stores them in a file beside it"
        ) from error
    return data


def _placement(
    nodes: Sequence[ListedNode],
    target: Target,
    answer: Answer,
    log: Sequence[str],
) -> Placement:
    """The placement that an answer describes."""
    refusals = _refusals(nodes, log)
    if answer.error:
        given = (refusals.get(number, "") for number in range(len(nodes)))
        refused = (_left(node, "", why, target) for node, why in zip(nodes, given, strict=True))
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
    shapes = {number for number, node in enumerate(nodes) if node.is_shape_arithmetic} | _moved(log)
    if max(lengths, default=1) == 1:  # it runs one node after the other
        left = {number for number in providers if number not in parts and number not in shapes}
        parts = partitions(nodes, parts, left)
    return Placement(target.name, tuple(_placed(nodes, providers, parts, shapes, refusals, target)))


def _placed(
    nodes: Sequence[ListedNode],
    providers: Mapping[int, str],
    parts: Mapping[int, int],
    shapes: set[int],
    refusals: Mapping[int, str],
    target: Target,
) -> list[PlacedNode]:
    found: list[PlacedNode] = []
    for number, node in enumerate(nodes):
        provider = providers.get(number, "")
        if number in parts:
            placed = PlacedNode(node.name, node.op_type, node.domain, provider, parts[number])
        elif not provider:
            placed = PlacedNode(node.name, node.op_type, node.domain)
        else:
            placed = _left(node, provider, refusals.get(number, ""), target)
        found.append(replace(placed, is_shape_arithmetic=number in shapes))
    return found


def _left(node: ListedNode, provider: str, refusal: str, target: Target) -> PlacedNode:
    """A node that a target does not take, with the reason and what would help."""
    reason, advice = _explained(node, refusal, target)
    return PlacedNode(
        node.name,
        node.op_type,
        node.domain,
        provider,
        reason=reason,
        advice=advice,
        is_shape_arithmetic=node.is_shape_arithmetic,
    )


def _explained(node: ListedNode, refusal: str, target: Target) -> tuple[str, str]:
    """Why a target does not take a node, and what would help; empty where that is not known."""
    needs = target.needs
    wide = [type_name(each) for each in dict.fromkeys(node.types) if each in needs.missing_types]
    if needs.static_shapes and not node.is_static:
        return _NOT_FIXED
    if needs.standard_operators and node.domain:
        return (
            f"{node.domain} is not a standard domain",
            "--patterns default, which writes standard operators only",
        )
    last = limits_of(target.name, node.op_type, node.domain)
    if last is not None and node.since > last:
        return (
            refusal or f"{node.label} of set {node.since}",
            f"operator set {last}, or a form of older operators",
        )
    if wide:
        return f"it has operands of the type {', '.join(wide)}", "32-bit integers and floats"
    if needs.prefers_float16 and refusal and "float" in node.types_text().split(", "):
        return refusal, "--precision float16 --compute float16"
    return refusal, ""


def _refusals(nodes: Sequence[ListedNode], log: Sequence[str]) -> dict[int, str]:
    """The reasons that a provider's log gives, by the number of the node."""
    found: dict[int, str] = {}
    for line in log:
        if match := _NO_KERNEL.search(line):
            number = number_in(match[1])
            if number is not None and number < len(nodes):
                node = nodes[number]
                types = node.types_text()
                suffix = f" for {types}" if types else ""
                found[number] = f"there is no kernel of set {node.since}{suffix}"
        elif match := _REFUSED.search(line):
            number = number_in(match[1])
            if number is not None:
                found[number] = f"its compiler refuses {match[2]} (error {match[3]})"
    return found


def _moved(log: Sequence[str]) -> set[int]:
    """The numbers of the nodes that onnxruntime moved to the processor, next to their operands."""
    found = {number_in(match[1]) for line in log if (match := _TO_PROCESSOR.search(line))}
    return {number for number in found if number is not None}


def _by_table(nodes: Sequence[ListedNode], target: Target) -> Placement:
    """The placement by the table of the operators of a target; nothing was asked."""
    table = table_of(target.name)
    reasons: dict[int, tuple[str, str]] = {}
    for number, node in enumerate(nodes):
        reason = table.objection(node) if table is not None else _beyond_the_standard(node)
        if reason:
            reasons[number] = (reason, "")
        elif target.needs.static_shapes and not node.is_static:
            reasons[number] = _NOT_FIXED
    constants = {number for number, node in enumerate(nodes) if node.is_constant}
    taken = {number for number in range(len(nodes)) if number not in reasons} - constants
    parts = partitions(nodes, taken, reasons)
    placed: list[PlacedNode] = []
    for number, node in enumerate(nodes):
        provider = "" if number in constants else target.name if number in taken else "cpu"
        reason, advice = reasons.get(number, ("", "")) if number not in constants else ("", "")
        placed.append(
            PlacedNode(
                node.name,
                node.op_type,
                node.domain,
                provider,
                parts.get(number, -1),
                reason,
                advice,
                node.is_shape_arithmetic,
            )
        )
    return Placement(target.name, tuple(placed), source="table")


def _beyond_the_standard(node: ListedNode) -> str:
    """Why a node is not one of the standard, empty when it is."""
    is_known = schema(node.op_type, node.domain, node.opset) is not None
    if is_known and not node.domain.startswith("com."):
        return ""
    return f"{node.label} is not an operator of the standard"
