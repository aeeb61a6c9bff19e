"""Compare the tables of `xoptim/targets/tables.toml` with the installed onnxruntime.

    make provider-facts                                     # report the differences
    python -m benchmarks.provider_facts --write             # also write the new tables

The operators of WebGPU are those that its execution provider takes in at least one of the test
models: the node tests of onnx, each with one operator, and the examples of patterns for contrib
operators. The tables of Core ML and NNAPI are compared with the documentation in the installed
onnxruntime.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import onnx
import onnxruntime
from onnx import TensorProto, compose
from onnx.backend.test.case.node import collect_testcases

from benchmarks.target_tables import (
    TODAY,
    OperatorTable,
    documented_here,
    read_tables,
    write_tables,
)
from xoptim import select
from xoptim.facts.operators import operator_label
from xoptim.facts.schema import since_version
from xoptim.targets import Target, named, place
from xoptim.testing import parse

_MAX_OPSET: Final = 25
_MIN_OPSET: Final = 7
"""The operator sets of the test models."""
_MAX_CASES: Final = 8
"""Maximum number of test models of an operator."""
_MAX_MERGED: Final = 96
"""Maximum number of test models that are merged into one, which a provider places at once."""
_DOMAIN: Final = "com.microsoft"


class Case(NamedTuple):
    """A model with one node, and the operator of that node."""

    label: str
    model: onnx.ModelProto


def node_tests() -> Iterator[Case]:
    """The node tests of onnx with one standard operator on tensors."""
    counts: dict[str, int] = defaultdict(int)
    for case in collect_testcases(None):
        model = case.model
        if case.kind != "node" or model is None or len(model.graph.node) != 1:
            continue
        node, opset = model.graph.node[0], model.opset_import[0].version
        values = [*model.graph.input, *model.graph.output]
        if (
            node.domain
            or opset > _MAX_OPSET
            or not all(v.type.HasField("tensor_type") for v in values)
        ):
            continue
        if any(v.type.tensor_type.elem_type == TensorProto.STRING for v in values):
            continue
        counts[node.op_type] += 1
        if counts[node.op_type] <= _MAX_CASES:
            yield Case(node.op_type, _in_float32(model))


def _in_float32(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model with float32 inputs and outputs in place of double ones, which GPUs often lack."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for value in (*copy.graph.input, *copy.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.DOUBLE:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    return copy


def examples() -> Iterator[Case]:
    """The examples of lowering patterns that consist of one contrib operator."""
    for pattern in select("lower"):
        for example in pattern.examples:
            if f"{_DOMAIN}." in example.before:
                model = parse(example.before, example.opset, example.domains)
                nodes = model.graph.node
                if len(nodes) == 1 and nodes[0].domain == _DOMAIN:
                    yield Case(operator_label(nodes[0].op_type, _DOMAIN), model)


def with_opset(case: Case, opset: int) -> Case | None:
    """A case in another operator set; ``None`` where it is not valid there."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.opset_import[0].version = opset
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return None
    return Case(case.label, model)


def taken(cases: Sequence[Case], target: Target) -> set[str]:
    """The operators that a provider takes in at least one of these models, which have one operator
    set.
    """
    if not cases:
        return set()
    placement = place(_merged(cases), target, software_device=True)
    if placement.compiles:
        labels = {case.label for case in cases}
        return {node.label for node in placement.taken if node.label in labels}
    if len(cases) == 1:
        return set()
    middle = len(cases) // 2
    return taken(cases[:middle], target) | taken(cases[middle:], target)


def _merged(cases: Sequence[Case]) -> onnx.ModelProto:
    """One model with the graphs of all cases side by side."""
    merged = onnx.ModelProto(ir_version=10)
    merged.opset_import.extend(cases[0].model.opset_import)
    merged.graph.name = "cases"
    for number, case in enumerate(cases):
        graph = compose.add_prefix_graph(case.model.graph, f"c{number}_")
        for field in ("node", "input", "output", "initializer"):
            getattr(merged.graph, field).extend(getattr(graph, field))
    return merged


def asked(target: Target, only: Collection[str]) -> dict[str, list[str]]:
    """The versions of each operator that a provider takes, as ranges of operator sets.

    Args:
        target: the target of the provider.
        only: operators to test; all if it is empty.
    """
    cases = [case for case in (*node_tests(), *examples()) if not only or case.label in only]
    versions: dict[str, set[int]] = defaultdict(set)
    for opset in range(_MAX_OPSET, _MIN_OPSET - 1, -1):
        by_imports: dict[tuple[tuple[str, int], ...], list[Case]] = defaultdict(list)
        for case in filter(None, (_in_opset(case, opset) for case in cases)):
            imports = tuple((entry.domain, entry.version) for entry in case.model.opset_import)
            by_imports[imports].append(case)
        for group in by_imports.values():
            for start in range(0, len(group), _MAX_MERGED):
                for label in taken(group[start : start + _MAX_MERGED], target):
                    versions[label].add(_since(label, opset))
    return {label: _ranges(label, numbers) for label, numbers in sorted(versions.items())}


def _in_opset(case: Case, opset: int) -> Case | None:
    """The case in an operator set; ``None`` if the next one has the same version of the operator.

    Each version of an operator is tested once, in the last operator set that has it.
    """
    case_opset = case.model.opset_import[0].version
    if "::" in case.label:
        return case if case_opset == opset else None
    if opset < _MAX_OPSET and _since(case.label, opset) == _since(case.label, opset + 1):
        return None
    return case if case_opset == opset else with_opset(case, opset)


def _since(label: str, opset: int) -> int:
    """The version of an operator in an operator set."""
    return 1 if "::" in label else since_version(label, "", opset) or 1


def _ranges(label: str, versions: Iterable[int]) -> list[str]:
    """The operator sets of versions of an operator: ``7-12``, or ``13+`` for the newest version."""
    if "::" in label:
        return ["1+"]
    starts = sorted({_since(label, opset) for opset in range(_MIN_OPSET, _MAX_OPSET + 1)})
    ends = {start: end - 1 for start, end in pairwise(starts)}
    return [
        f"{start}+" if start not in ends else _range(start, ends[start])
        for start in sorted(versions)
    ]


def _range(start: int, end: int) -> str:
    return f"{start}" if start == end else f"{start}-{end}"


def differences(
    name: str, old: OperatorTable, new: OperatorTable, only: Collection[str]
) -> Iterator[str]:
    """The lines that say how two tables of a target differ, in some operators or in all."""
    for label in sorted(only or old.operators.keys() | new.operators.keys()):
        before, after = old.operators.get(label), new.operators.get(label)
        if before != after:
            yield f"{name}: {label}: {_shown(before)} -> {_shown(after)}"


def _shown(ranges: Sequence[str] | None) -> str:
    return "absent" if ranges is None else ", ".join(ranges) or "any version"


def main() -> None:
    """Compare the tables, print the differences, and write the new tables with ``--write``."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the new tables")
    parser.add_argument("--only", default="", help="operators to test, separated by commas")
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    if only and options.write:
        parser.error("--write tests all operators: it cannot be combined with --only")
    tables = read_tables()
    new_tables = documented_here()
    target = named("webgpu")
    if target.is_installed:
        assert target.plugin is not None
        plugin = f"{target.plugin.package} {target.version}"
        origin = f"{plugin} with onnxruntime {onnxruntime.__version__}, asked"
        new_tables["webgpu"] = OperatorTable(origin, TODAY, asked(target, only))
    else:
        print(f"webgpu: not compared, its provider is not installed: {target.install}")
    for name, table in new_tables.items():
        lines = list(differences(name, tables[name], table, only if name == "webgpu" else set()))
        print("\n".join(lines) or f"{name}: as {table.origin} states it")
    if options.write:
        write_tables({**tables, **new_tables})


if __name__ == "__main__":
    main()
