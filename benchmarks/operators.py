"""Time of the operators that fusions write, next to those that they replace.

    # all fusions, all sizes, one and two threads
    python -m benchmarks.operators
    # some of them
    python -m benchmarks.operators --only Gelu,GemmAdd
    # replace the rows of lab/payoff.md
    python -m benchmarks.operators --provider cuda --write
    # say what the page lacks, and which default is slower
    python -m benchmarks.operators --check

Each subject (`operator_models.toml`) is optimized by one pattern only. Both models run with all
optimizations of onnxruntime, in rounds of random order, with sessions made anew in three passes. A
ratio below 1 says that the fusion pays; its interval is that of the bootstrap over passes and
rounds.
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
    """A model on which one pattern applies: the text of its graph, the operator set, and the
    numbers of rows to measure.
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
        drawn = {each.name: each for each in model.graph.initializer}
        table = (
            numpy_helper.to_array(drawn["W"]).T.copy() if value.name == "WT" else _drawn(value, rng)
        )
        model.graph.initializer.append(numpy_helper.from_array(table, value.name))
        model.graph.input.remove(value)
    return model


def _drawn(value: onnx.ValueInfoProto, rng: np.random.Generator) -> np.ndarray:
    """The numbers of a weight: integers, or normal ones by the number of rows; V is positive."""
    shape, dtype = (
        [dim.dim_value for dim in value.type.tensor_type.shape.dim],
        value.type.tensor_type.elem_type,
    )
    if dtype != onnx.TensorProto.FLOAT:
        return rng.integers(-8, 8, shape).astype(numpy_dtype(dtype))
    numbers = rng.standard_normal(shape) * (shape[0] ** -0.5 if len(shape) > 1 else 1.0)
    return np.asarray(np.abs(numbers) if value.name == "V" else numbers, np.float32)


def measure(name: str, rows: int, threads: int, provider: str, seconds: float) -> Ratio | None:
    """The time with a pattern divided by the time without it, ``None`` where another provider than
    the CPU lacks a kernel.

    Raises:
        SystemExit: the pattern does not apply on its subject.
    """
    before = model_of(SUBJECTS[name], rows)
    applied: list[object] = []
    after = xoptim.optimize(before, patterns=name, provider=provider, on_application=applied.append)
    if not applied and provider != "cpu":
        return None
    if not applied:
        raise SystemExit(f"{name} does not apply on its subject with {rows} rows")
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
    """Rows of the page, one after another, for the patterns that are meant for the provider."""
    options = xoptim.OptimizationOptions(patterns=list(names), provider=provider)
    meant = {
        rewrite.name() for rewrite in options.selected() if not rewrite.unfit_for(None, provider)
    }
    for name in filter(meant.__contains__, names):
        for count in threads:
            ratios = {
                rows: measure(name, rows, count, provider, seconds) for rows in SUBJECTS[name].rows
            }
            yield (name, provider, str(count), *(cell(ratios.get(size)) for size in SIZES))


_SLOWER = 1.02
"""A fusion does not pay where the whole interval of its ratio lies above this."""
_INTERVAL = re.compile(r"[\d.]+ \(([\d.]+) to ([\d.]+)\)")
_FUSING = ("specialize", "target")
"""Phases of the patterns that write other operators.

Those of `canonicalize` remove nodes, or write the same ones.
"""
_CHOOSING = "einsum"
"""Tag of the patterns that choose between two forms, and may write more nodes."""


def fusions(selection: str) -> set[str]:
    """The names of the patterns of a selection that write other operators, and fit a CPU."""
    found = xoptim.OptimizationOptions(patterns=selection, provider="cpu").selected()
    return {
        each.name()
        for each in found
        if isinstance(each, PatternOptimization)
        and (each.phase in _FUSING or _CHOOSING in each.tags)
        and not each.unfit_for(None, "cpu")
    }


def faults_of(rows: Mapping[tuple[str, str, str], Sequence[str]]) -> list[str]:
    """The fusions that the rows lack, the rows that lack sizes of their subject, and the defaults
    that are slower.
    """
    on_cpu = {name for name, provider, _ in rows if provider == "cpu"}
    default, needed = fusions("default"), fusions("default+onnxruntime")
    faults = [f"{name} is not measured" for name in sorted(needed - on_cpu)]
    for key, cells in rows.items():
        name, provider, _ = key
        lows = {
            size: float(found[1])
            for size, cell in zip(SIZES, cells, strict=True)
            if (found := _INTERVAL.fullmatch(cell))
        }
        sizes = set(SUBJECTS[name].rows)
        if lows.keys() != sizes if provider == "cpu" else not lows or not lows.keys() <= sizes:
            faults.append(f"{', '.join(key)}: the sizes are not those of the subject")
        slower = [size for size, low in lows.items() if name in default and low > _SLOWER]
        faults += [
            f"{', '.join(key)}: slower with {size} rows, but applied by default" for size in slower
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
        "--seconds", type=float, default=0.6, help="of measured runs for each model"
    )
    parser.add_argument(
        "--write", action="store_true", help="write lab/payoff.md; rows that are not measured stay"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="measure nothing; say what is wrong with lab/payoff.md",
    )
    given = parser.parse_args()
    if given.check:
        sys.exit("\n".join(faults_of(rows_of(read(PAGE)[TABLE]))) or 0)
    names = given.only.split(",") if given.only else sorted(SUBJECTS)
    if reason := missing_provider(given.provider):
        print(f"nothing measured: {reason}")
        return
    counts = [int(count) for count in given.threads.split(",")]
    for row in measured(names, given.provider, counts, given.seconds):
        print(f"| {' | '.join(row)} |", flush=True)
        if given.write:
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
