"""Nodes and time of the results of xoptim and of other optimizers, measured in the same rounds.

    # small models of many architectures
    python -m benchmarks.zoo models
    # the other optimizers; those that are not installed are skipped
    pip install onnxsim onnxslim onnxscript
    # measure, and write docs/performance.md and the README's table
    make performance MODELS=models
    python -m benchmarks.performance models --only "^bert" --tools "xopt,xopt --opset newest"

A model FAMILY.NAME.EXPORTER.onnx with a dynamic sequence length is measured at several lengths,
others on the values in FAMILY.NAME.EXPORTER.npz. Each optimizer works in a process of its own; a
result that is not equal to the original is not measured. All results of a model run on one CPU
thread, with ORT graph optimizations enabled and disabled, in rounds of random order. Ten samples
decide which operators are quantized; the error of a quantized model is the largest one on ten
others. Results that look slower than the original are measured again, three times as long. Figures
are kept in FOLDER/figures.json, and models that are in this file are not measured again: an
interrupted run can continue.
"""

import argparse
import json
import math
import pathlib
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from importlib.util import find_spec
from statistics import geometric_mean
from typing import Any, Literal

import numpy as np
import onnx
import onnxruntime

import xoptim
from benchmarks.measured import Table, keep, with_table
from benchmarks.precision import drawn_values
from benchmarks.tools import PEERS, apart, offline, write_between
from xoptim.bench import ModelTimes, Ratio, bench
from xoptim.facts.protos import inner_graphs
from xoptim.facts.words import counted
from xoptim.system.machine import cores, processor
from xoptim.verification.inputs.dims import input_specs, open_dimensions
from xoptim.verification.inputs.reference import run_reference

ROOT = pathlib.Path(__file__).parent.parent
PAGE, README = ROOT / "docs" / "performance.md", ROOT / "README.md"
HEAD = """\
One CPU thread, CPU time, batch 1, rounds in random order. Models with a dynamic sequence length
run at {lengths} tokens, as far as position embeddings reach; their time is the geometric mean.
{machine}.
The original measured against itself took {noise} of its time.
"""
LENGTHS = (1, 128, 512)
SLOWER = 1.02
INT8 = "xopt --precision int8"
TOLERANCE = 0.02
"""Tolerance of quantized models: the largest error divided by the largest value."""
OWN_ERRORS = "errors, relative to each sample"
SAMPLES = 10
"""Samples that decide which operators are quantized; as many others serve to measure the error."""
_LIMIT = 300  # seconds that an optimizer may take
_INT8_LIMIT = 1200  # quantization measures each operator


def _xopt(
    patterns: str, opset: Literal["newest"] | None = None
) -> Callable[[onnx.ModelProto], onnx.ModelProto]:
    return lambda model: xoptim.optimize(model, patterns=patterns, opset=opset)


OURS: dict[str, Callable[[onnx.ModelProto], onnx.ModelProto]] = {
    "xopt": _xopt("default"),
    "xopt --opset newest": _xopt("default", "newest"),
    "xopt onnxruntime": _xopt("default+onnxruntime"),
    "xopt fast": _xopt("default+onnxruntime", "newest"),
}
OTHERS = {"onnxruntime offline": offline, **PEERS}
OPTIMIZERS = OURS | OTHERS
"""Functions from model to model by tool: all tools but int8, which needs samples as well."""
TOOLS = (*OURS, INT8, *OTHERS)
"""The names of all tools, in the order of the tables."""
COLUMNS = ("xopt", "xopt --opset newest", "xopt fast", INT8, "onnxruntime offline", "onnxslim")
"""The tools that are measured without ``--tools``."""


def number_of_nodes(graph: onnx.GraphProto) -> int:
    """Nodes of a graph and of its subgraphs, without constants."""
    return sum(
        node.op_type != "Constant"
        for scope in (graph, *inner_graphs(graph.node))
        for node in scope.node
    )


def size_of(path: pathlib.Path) -> int:
    """Number of nodes of a file, after inlining local functions. Weights are not read."""
    return number_of_nodes(
        onnx.inliner.inline_local_functions(onnx.load(path, load_external_data=False)).graph
    )


def optimize(tool: str, source: pathlib.Path, target: pathlib.Path) -> None:
    """Optimize a file."""
    onnx.save(OPTIMIZERS[tool](onnx.load(source)), target)


def quantize(source: pathlib.Path, target: pathlib.Path) -> dict[str, float]:
    """Quantize a file; returns two errors on samples that quantization has not seen.

    ``error`` is the largest one as `xopt verify` measures it, relative to the largest value over
    all samples; ``own error`` is relative to the largest value of each sample.
    """
    samples = drawn_values(source, 2 * SAMPLES)
    options = xoptim.PrecisionOptions(scheme="int8", tolerance=TOLERANCE, feeds=samples[:SAMPLES])
    onnx.save(xoptim.optimize(onnx.load(source), precision=options), target)
    report = xoptim.verify(source, target, precision=replace(options, feeds=samples[SAMPLES:]))
    outputs = [output for run in report.runs for output in run.comparisons]
    return {
        "error": TOLERANCE * max(output.excess for output in outputs),
        "own error": max(output.max_abs / output.top for output in outputs if output.top),
    }


def lengths_of(source: pathlib.Path) -> tuple[str, list[int]]:
    """The name of the dynamic sequence length of a model, and the lengths with which it runs;
    ``("", [])`` for a model without one.
    """
    specs = input_specs(onnx.load(source, load_external_data=False))
    name = next(
        (dim for dim, purpose in open_dimensions(specs).items() if purpose == "sequence"), ""
    )
    runs = [length for length in LENGTHS if name and _runs(source, {name: length})]
    return (name, runs) if runs else ("", [])


def _runs(source: pathlib.Path, dims: dict[str, int]) -> bool:
    try:
        return bool(
            run_reference(
                source, xoptim.VerificationOptions(dims=dims, assignments=1, typical=True)
            ).runs
        )
    except xoptim.XoptimError:
        return False


def made(
    tool: str, source: pathlib.Path, path: pathlib.Path, feeds: dict[str, Any]
) -> dict[str, float]:
    """Write the result of an optimizer; returns the errors of a quantized model.

    Raises `RuntimeError` when the optimizer fails, or its result is not equal to the original.
    """
    if tool == INT8:
        errors: dict[str, float] = apart(quantize, source, path, limit=_INT8_LIMIT)
        return errors
    apart(optimize, tool, source, path, limit=_LIMIT)
    if not xoptim.verify(source, path, xoptim.VerificationOptions(feeds=feeds)).ok:
        raise RuntimeError("not equal")
    return {}


def measured(source: pathlib.Path, tools: Iterable[str], seconds: float) -> dict[str, Any]:
    """Figures by optimizer: nodes, size and times divided by the original's, or why it failed."""
    feeds = dict(np.load(source.with_suffix(".npz")))
    before = size_of(source)
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = {tool: pathlib.Path(folder) / f"{tool.replace(' ', '_')}.onnx" for tool in tools}
        for tool, path in paths.items():
            try:
                figures[tool] = made(tool, source, path, feeds)
            except RuntimeError as error:
                figures[tool] = {"failed": str(error)}
                continue
            figures[tool] |= {
                "nodes": size_of(path) / before,
                "size": path.stat().st_size / source.stat().st_size,
            }
        results = {tool: path for tool, path in paths.items() if "nodes" in figures[tool]}
        for name, ratios in times(source, results, feeds, seconds).items():
            figures.setdefault(name, {}).update(ratios)
    return figures


def times(
    source: pathlib.Path, results: dict[str, pathlib.Path], feeds: dict[str, Any], seconds: float
) -> dict[str, Any]:
    """The times of results divided by the original's, by tool: at all lengths, and with ORT graph
    optimizations disabled.
    """
    options: dict[str, Any] = {"threads": 1, "compare": False, "loading": False}
    name, lengths = lengths_of(source)
    dims_by_field = {f"at {length}": {name: length} for length in lengths}
    sizes: dict[str, Any] = (
        {"at": list(dims_by_field.values())} if dims_by_field else {"feeds": feeds}
    )
    ratios: dict[str, dict[str, Any]] = {}
    slow_tools = set(results)
    for factor in (1, 3):
        models = {
            "original": source,
            "the same": source,
            **{tool: results[tool] for tool in results if tool in slow_tools},
        }
        report = bench(models, seconds=factor * seconds, passes=2, **options, **sizes)
        for index, model in enumerate(report.models[1:], start=1):
            ratios_by_length = {
                field: ratio_of_model(part.models[index]).value
                for field, part in zip(dims_by_field, report.at, strict=True)
            }
            ratios[model.label] = {
                "time": ratio_of_model(model).value,
                "interval": list(ratio_of_model(model).interval),
                **ratios_by_length,
            }
        slow_tools = {tool for tool in slow_tools if ratios[tool]["time"] > SLOWER}
        if not slow_tools:
            break
    sizes = {"dims": {name: lengths[len(lengths) // 2]}} if dims_by_field else {"feeds": feeds}
    for model in bench(
        {"original": source, **results}, seconds=seconds, passes=1, level="off", **options, **sizes
    ).models[1:]:
        ratios[model.label] |= {
            "time off": ratio_of_model(model).value,
            "interval off": list(ratio_of_model(model).interval),
        }
    return ratios


def ratio_of_model(times: ModelTimes) -> Ratio:
    """The ratio of any model but the first, which is the one to divide by and has no ratio."""
    assert times.ratio is not None
    return times.ratio


def mean(values: Iterable[float]) -> float:
    """The geometric mean; NaN of no values."""
    numbers = [*values]
    return geometric_mean(numbers) if numbers else math.nan


def table(figures: Mapping[str, Mapping[str, Any]], field: str) -> Table:
    """Geometric means: a row for each family and one for all, a column for each optimizer."""
    tools = tools_of(figures)
    names = sorted({name.partition(".")[0] for name in figures})
    rows: list[list[str]] = []
    for family in (*names, "all"):
        models = [
            model for name, model in figures.items() if family in ("all", name.partition(".")[0])
        ]
        means = [
            mean(model[tool][field] for model in models if field in model.get(tool, {}))
            for tool in tools
        ]
        cells = ["" if math.isnan(value) else f"{value:.2f}" for value in means]
        rows.append([family, str(len(models)), *cells])
    return Table(["family", "models", *tools], rows)


def tools_of(figures: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The optimizers that were measured."""
    return [tool for tool in TOOLS if any(tool in model for model in figures.values())]


def remarks(figures: Mapping[str, Mapping[str, Any]], suffix: str = "") -> Table:
    """For each optimizer, the models that became slower, and those without an equal result."""
    time, interval = f"time{suffix}", f"interval{suffix}"
    rows: list[list[str]] = []
    for tool in tools_of(figures):
        results = {name: model[tool] for name, model in figures.items() if tool in model}
        slow_models = {
            name: result[time]
            for name, result in results.items()
            if time in result and result[interval][0] > SLOWER
        }
        failures = sorted(name for name, result in results.items() if "failed" in result)
        slowest = sorted(slow_models.items(), key=lambda item: -item[1])[:5]
        examples = ", ".join(f"{name} {ratio:.2f}" for name, ratio in slowest)
        counts = [str(len(results) - len(failures)), str(len(slow_models))]
        rows.append([tool, *counts, examples, ", ".join(failures)])
    return Table(["optimizer", "measured", "slower", "the slowest", "no equal result"], rows)


TABLES = {
    "nodes": "nodes",
    "time": "latency",
    "at 1": "latency, 1 token",
    "at 128": "latency, 128 tokens",
    "at 512": "latency, 512 tokens",
    "time off": "latency, ORT graph optimizations disabled",
    "size": "file size",
}
"""Titles in the README by figure. Each figure has a table on the page, and a row in the README."""
REMARKED = ("time", "time off")
"""The figures whose tables are followed by a table of `remarks`."""


def errors_of(figures: Mapping[str, Mapping[str, Any]], field: str = "error") -> Table:
    """The number of quantized models within the tolerance, and each model with a larger error."""
    errors = {
        name: model[INT8][field] for name, model in figures.items() if field in model.get(INT8, {})
    }
    accepted = [error for error in errors.values() if error <= TOLERANCE]
    head = f"{counted(len(accepted), 'model')} within {TOLERANCE:.0%}"
    rows = [[head, f"{max(accepted, default=0):.1%}"]]
    by_error = sorted(errors.items(), key=lambda item: -item[1])
    rows += [[name, f"{error:.1%}"] for name, error in by_error if error > TOLERANCE]
    return Table(["model", "largest error"], rows)


def with_figure(
    figures: Mapping[str, Mapping[str, Any]], field: str
) -> dict[str, Mapping[str, Any]]:
    """The models for which at least one tool has a figure."""
    return {
        name: model
        for name, model in figures.items()
        if any(field in result for result in model.values())
    }


def tables_of(figures: Mapping[str, Mapping[str, Any]]) -> dict[str, Table]:
    """The tables of docs/performance.md."""
    tables: dict[str, Table] = {}
    for field in TABLES:
        models = with_figure(figures, field)
        tables[field] = table(models, field)
        if field in REMARKED:
            tables[f"{field}, remarks"] = remarks(models, field.removeprefix("time"))
    return {**tables, "errors": errors_of(figures), OWN_ERRORS: errors_of(figures, "own error")}


def machine(figures: Mapping[str, Mapping[str, Any]]) -> str:
    """The caption of the page: how the figures were measured, on which machine."""
    ratios = [model["the same"]["time"] for model in figures.values()]
    return HEAD.format(
        machine=f"onnxruntime {onnxruntime.__version__}, {processor()}",
        noise=f"{min(ratios):.2f} to {max(ratios):.2f}",
        lengths=", ".join(map(str, LENGTHS)),
    ).rstrip()


def readme(text: str, tables: Mapping[str, Table]) -> str:
    """The README with a table of the averages over all models."""
    tools = tables["nodes"].columns[2:]
    rows = [[title, *tables[field].rows[-1][2:]] for field, title in TABLES.items()]
    largest = max((row[1] for row in tables["errors"].rows), key=lambda text: float(text[:-1]))
    rows.append(["largest error", *(largest if tool == INT8 else "" for tool in tools)])
    return with_table(text, "averages", Table(["", *tools], rows))


def _load(path: pathlib.Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def main() -> None:
    """Measure, keep the figures, print the tables, and write the page if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="", help="regular expression for names of models")
    parser.add_argument(
        "--tools", default="", help=f"tools, separated by commas, of {', '.join(TOOLS)}"
    )
    parser.add_argument(
        "--seconds", type=float, default=0.3, help="time of measured runs for each result"
    )
    parser.add_argument(
        "--jobs", type=int, default=cores(), help="number of models that are measured at once"
    )
    parser.add_argument(
        "--write", action="store_true", help="write docs/performance.md and the table of the README"
    )
    options = parser.parse_args()
    figures_file = options.folder / "figures.json"
    figures = _load(figures_file)
    names = options.tools.split(",") if options.tools else COLUMNS
    tools = [tool for tool in names if tool not in PEERS or find_spec(tool) is not None]
    sources = [
        path for path in sorted(options.folder.glob("*.onnx")) if re.search(options.only, path.stem)
    ]
    start = time.perf_counter()
    with ThreadPoolExecutor(options.jobs) as pool:
        jobs = {
            pool.submit(apart, measured, path, tools, options.seconds): path.stem
            for path in sources
            if path.stem not in figures
        }
        for job in as_completed(jobs):
            figures[jobs[job]] = job.result()
            text = json.dumps(dict(sorted(figures.items())), indent=1)
            figures_file.write_text(text, encoding="utf-8")
            times = {
                tool: result.get("time", result.get("failed"))
                for tool, result in figures[jobs[job]].items()
            }
            print(f"{time.perf_counter() - start:.0f} s", jobs[job], times, flush=True)
    tables = tables_of(figures)
    for name, page_table in tables.items():
        print(f"\n{name}\n\n{page_table.markdown()}")
    if options.write:
        keep(PAGE, tables)
        write_between(PAGE, "machine", machine(figures))
        README.write_text(readme(README.read_text(encoding="utf-8"), tables), encoding="utf-8")


if __name__ == "__main__":
    main()
