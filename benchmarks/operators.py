"""Time of models before and after one fusion, to decide whether it is on by default.

    # all fusions, all sizes, one and two threads
    python -m benchmarks.operators
    # some of them
    python -m benchmarks.operators --only Gelu,GemmAdd
    # replace the rows of lab/payoff.md
    python -m benchmarks.operators --provider cuda --write
    # list fusions that the page lacks, and default fusions that are slower
    python -m benchmarks.operators --check

Each subject (`operator_models.toml`) is optimized by one pattern only. The original and the result
run with all ORT graph optimizations, in rounds of random order; sessions are created again in each
of three passes. A ratio below 1 means that the fusion is faster. Its interval comes from the
bootstrap over passes and rounds.
"""

import argparse
import pathlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

import xoptim
from benchmarks.measured import Table, keep, merged, read
from benchmarks.tools import cell, missing_provider, read_toml, write_between
from xoptim.bench import Ratio, bench
from xoptim.facts.dtypes import numpy_dtype
from xoptim.match.pattern import PatternOptimization
from xoptim.system.machine import processor

PAGE = pathlib.Path(__file__).parent.parent / "lab" / "payoff.md"
TABLE = "fusions"
SIZES = (1, 4, 16, 128, 1024)


class Subject(NamedTuple):
    """A model to which one pattern applies.

    Attributes:
        text: its graph in ONNX text, with ``ROWS`` for the number of rows.
        opset: its operator set.
        rows: the numbers of rows to measure.
    """

    text: str
    opset: int = 18
    rows: Sequence[int] = ()


SUBJECTS: dict[str, Subject] = {
    text.partition(" ")[0]: Subject(text, group["opset"], group["rows"])
    for group in read_toml("operator_models")["groups"]
    for text in re.split(r"\n(?=\S)", group["graphs"].strip())
}


def model_of(subject: Subject, rows: int) -> onnx.ModelProto:
    """The model of a subject.

    Inputs in capital letters become weights, and WT is the transpose of W.
    """
    text = subject.text.replace("ROWS", str(rows))
    imports = f'"" : {subject.opset}, "com.microsoft" : 1'
    model = onnx.parser.parse_model(f"<ir_version: 10, opset_import: [{imports}]> {text}")
    rng = np.random.default_rng(0)
    for value in [value for value in model.graph.input if value.name.isupper()]:
        weights = {tensor.name: tensor for tensor in model.graph.initializer}
        numbers = (
            numpy_helper.to_array(weights["W"]).T.copy()
            if value.name == "WT"
            else _random_weight(value, rng)
        )
        model.graph.initializer.append(numpy_helper.from_array(numbers, value.name))
        model.graph.input.remove(value)
    return model


def _random_weight(value: onnx.ValueInfoProto, rng: np.random.Generator) -> np.ndarray:
    """Random integers from -8 to 7, or normal numbers; V, a variance, gets absolute values.

    The standard deviation of a matrix is ``rows ** -0.5``.
    """
    shape, dtype = (
        [dim.dim_value for dim in value.type.tensor_type.shape.dim],
        value.type.tensor_type.elem_type,
    )
    if dtype != onnx.TensorProto.FLOAT:
        return rng.integers(-8, 8, shape).astype(numpy_dtype(dtype))
    numbers = rng.standard_normal(shape) * (shape[0] ** -0.5 if len(shape) > 1 else 1.0)
    return np.asarray(np.abs(numbers) if value.name == "V" else numbers, np.float32)


def measure(name: str, rows: int, threads: int, provider: str, seconds: float) -> Ratio | None:
    """The time with a pattern divided by the time without it.

    ``None`` if the pattern does not apply for a provider other than the CPU, which may lack a
    kernel.

    Raises:
        SystemExit: the pattern does not apply to its subject.
    """
    before = model_of(SUBJECTS[name], rows)
    applied: list[object] = []
    after = xoptim.optimize(before, patterns=name, provider=provider, on_application=applied.append)
    if not applied and provider != "cpu":
        return None
    if not applied:
        raise SystemExit(f"{name} does not apply to its subject with {rows} rows")
    options: dict[str, Any] = {
        "provider": provider,
        "threads": threads,
        "seconds": seconds,
        "compare": False,
        "loading": False,
    }
    return bench({"before": before, "after": after}, **options).models[1].ratio


def rows_of(table: Table) -> dict[tuple[str, str, str], list[str]]:
    """The rows of the table of the page by pattern, provider and threads."""
    return {
        (name, provider, threads): [*cells]
        for name, provider, threads, *cells in table.rows
        if name in SUBJECTS
    }


def measured(
    names: Sequence[str], provider: str, threads: Sequence[int], seconds: float
) -> Iterator[tuple[str, ...]]:
    """Rows of the page, one after another, for the patterns that fit the provider."""
    options = xoptim.OptimizationOptions(patterns=list(names), provider=provider)
    fitting = {
        rewrite.name() for rewrite in options.selected() if not rewrite.unfit_for(None, provider)
    }
    for name in filter(fitting.__contains__, names):
        for count in threads:
            ratios = {
                rows: measure(name, rows, count, provider, seconds) for rows in SUBJECTS[name].rows
            }
            yield (name, provider, str(count), *(cell(ratios.get(size)) for size in SIZES))


_SLOWER = 1.02
"""A fusion counts as slower if the lower end of the interval of its ratio is above this."""
_INTERVAL = re.compile(r"[\d.]+ \(([\d.]+) to ([\d.]+)\)")
_FUSING_PHASES = ("specialize", "target")
"""Phases of the patterns that write other operators than they match.

Patterns of the phase ``canonicalize`` only remove nodes, or keep the operators.
"""
_EINSUM_TAG = "einsum"
"""Tag of the patterns that choose between Einsum and MatMul, and may write more nodes."""


def fusions(selection: str) -> set[str]:
    """The names of the patterns of a selection that write other operators, and fit a CPU."""
    rewrites = xoptim.OptimizationOptions(patterns=selection, provider="cpu").selected()
    return {
        rewrite.name()
        for rewrite in rewrites
        if isinstance(rewrite, PatternOptimization)
        and (rewrite.phase in _FUSING_PHASES or _EINSUM_TAG in rewrite.tags)
        and not rewrite.unfit_for(None, "cpu")
    }


def faults_of(rows: Mapping[tuple[str, str, str], Sequence[str]]) -> list[str]:
    """What is wrong with the rows of the page, a line each.

    A fusion may have no row for the CPU, a row may have other sizes than its subject, and a fusion
    that is on by default may be slower.
    """
    on_cpu = {name for name, provider, _ in rows if provider == "cpu"}
    default, all_fusions = fusions("default"), fusions("default+onnxruntime")
    faults = [f"{name} is not measured" for name in sorted(all_fusions - on_cpu)]
    for key, cells in rows.items():
        name, provider, _ = key
        lows = {
            size: float(interval[1])
            for size, cell in zip(SIZES, cells, strict=True)
            if (interval := _INTERVAL.fullmatch(cell))
        }
        sizes = set(SUBJECTS[name].rows)
        if lows.keys() != sizes if provider == "cpu" else not lows or not lows.keys() <= sizes:
            faults.append(f"{', '.join(key)}: the sizes are not those of the subject")
        slow_sizes = [size for size, low in lows.items() if name in default and low > _SLOWER]
        faults += [
            f"{', '.join(key)}: slower with {size} rows, but applied by default"
            for size in slow_sizes
        ]
    return faults


def main() -> None:
    """Measure, print, and write the page if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="patterns, separated by commas")
    parser.add_argument("--provider", default="cpu")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument(
        "--seconds", type=float, default=0.6, help="time of measured runs for each model"
    )
    parser.add_argument(
        "--write", action="store_true", help="write lab/payoff.md; rows that are not measured stay"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="measure nothing; list what is wrong with lab/payoff.md",
    )
    options = parser.parse_args()
    if options.check:
        sys.exit("\n".join(faults_of(rows_of(read(PAGE)[TABLE]))) or 0)
    names = options.only.split(",") if options.only else sorted(SUBJECTS)
    if reason := missing_provider(options.provider):
        print(f"nothing measured: {reason}")
        return
    counts = [int(count) for count in options.threads.split(",")]
    for row in measured(names, options.provider, counts, options.seconds):
        print(f"| {' | '.join(row)} |", flush=True)
        if options.write:
            write(row)


def write(row: Sequence[str]) -> None:
    """Put a row into the table of the page, in place of an older one."""
    columns = ["pattern", "provider", "threads", *(f"{size} rows" for size in SIZES)]
    tables = read(PAGE)
    keep(PAGE, {**tables, TABLE: merged(tables[TABLE], Table(columns, [row]), keys=3)})
    machine = f"onnxruntime {onnxruntime.__version__}, {processor()}"
    write_between(PAGE, "machine", f"Rows written last: {machine}; the others are older.")


if __name__ == "__main__":
    main()
