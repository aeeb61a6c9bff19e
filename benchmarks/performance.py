"""Nodes and time of optimized models, next to other optimizers' in the same rounds.

    # small models of many architectures
    python -m benchmarks.zoo models
    # the peers; those that are not installed are left out
    pip install onnxsim onnxslim onnxscript
    make performance MODELS=models                            # measure, and write
    docs/performance.md and the README's table
    python -m benchmarks.performance models --only "^bert" --tools "xopt,xopt --opset newest"

A model FAMILY.NAME.EXPORTER.onnx whose inputs have an open length is measured at several lengths,
others on the values in FAMILY.NAME.EXPORTER.npz. Each optimizer works in a process of its own; a
result that is not equal to the original is not measured. All results of a model run on one thread
of the CPU, with all of onnxruntime's own optimizations and without them, in rounds of random order.
Quantized models are chosen on ten samples; their error is the largest one on ten others. Results
that look slower than the original are measured again, three times as long. Figures are kept in
FOLDER/figures.json: a run that was interrupted goes on where it ended.
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
"""Of the quantized models: the largest error over the largest value."""
OWN_ERRORS = "errors, relative to each sample"
SAMPLES = 10
"""Those on which operators are chosen, and as many that were not seen."""
_LIMIT = 300  # seconds that an optimizer may take
_INT8_LIMIT = 1200  # it measures each operator


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
"""What needs nothing but the model, by name."""
TOOLS = (*OURS, INT8, *OTHERS)
"""The names of all, in the order of the tables."""
COLUMNS = ("xopt", "xopt --opset newest", "xopt fast", INT8, "onnxruntime offline", "onnxslim")
"""Those that are measured unless others are asked for."""


def number_of_nodes(graph: onnx.GraphProto) -> int:
    """Nodes of a graph and of its subgraphs, without constants."""
    return sum(
        node.op_type != "Constant"
        for each in (graph, *inner_graphs(graph.node))
        for node in each.node
    )


def size_of(path: pathlib.Path) -> int:
    """Number of nodes of a file, whose weights are not read, with the bodies of functions in place
    of their calls.
    """
    return number_of_nodes(
        onnx.inliner.inline_local_functions(onnx.load(path, load_external_data=False)).graph
    )


def optimize(tool: str, source: pathlib.Path, target: pathlib.Path) -> None:
    """Optimize a file."""
    onnx.save(OPTIMIZERS[tool](onnx.load(source)), target)


def quantize(source: pathlib.Path, target: pathlib.Path) -> dict[str, float]:
    """Quantize a file; the largest error on samples that were not seen, as `xopt verify` measures
    it, and relative to the largest value of each sample alone.
    """
    samples = drawn_values(source, 2 * SAMPLES)
    asked = xoptim.PrecisionOptions(scheme="int8", tolerance=TOLERANCE, feeds=samples[:SAMPLES])
    onnx.save(xoptim.optimize(onnx.load(source), precision=asked), target)
    report = xoptim.verify(source, target, precision=replace(asked, feeds=samples[SAMPLES:]))
    outputs = [output for run in report.runs for output in run.comparisons]
    return {
        "error": TOLERANCE * max(output.excess for output in outputs),
        "own error": max(output.max_abs / output.top for output in outputs if output.top),
    }


def lengths_of(source: pathlib.Path) -> tuple[str, list[int]]:
    """The open dimension of a model that is the length of its inputs, and the lengths with which it
    runs; ``""`` for none.
    """
    specs = input_specs(onnx.load(source, load_external_data=False))
    name = next(
        (each for each, purpose in open_dimensions(specs).items() if purpose == "sequence"), ""
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
    """Write the result of an optimizer, and the error of a quantized one.

    Raises `RuntimeError` when it fails, or its result is not equal to the original.
    """
    if tool == INT8:
        found: dict[str, float] = apart(quantize, source, path, limit=_INT8_LIMIT)
        return found
    apart(optimize, tool, source, path, limit=_LIMIT)
    if not xoptim.verify(source, path, xoptim.VerificationOptions(feeds=feeds)).ok:
        raise RuntimeError("not equal")
    return {}


def measured(source: pathlib.Path, tools: Iterable[str], seconds: float) -> dict[str, Any]:
    """For each optimizer, nodes and times divided by the original's, or why there are none."""
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
        equal = {tool: path for tool, path in paths.items() if "nodes" in figures[tool]}
        for name, found in times(source, equal, feeds, seconds).items():
            figures.setdefault(name, {}).update(found)
    return figures


def times(
    source: pathlib.Path, equal: dict[str, pathlib.Path], feeds: dict[str, Any], seconds: float
) -> dict[str, Any]:
    """The times of results divided by the original's: at all lengths, and without onnxruntime's own
    optimizations.
    """
    given: dict[str, Any] = {"threads": 1, "compare": False, "loading": False}
    name, lengths = lengths_of(source)
    at = {f"at {length}": {name: length} for length in lengths}
    sizes: dict[str, Any] = {"at": list(at.values())} if at else {"feeds": feeds}
    found: dict[str, dict[str, Any]] = {}
    again = set(equal)
    for factor in (1, 3):
        models = {
            "original": source,
            "the same": source,
            **{tool: equal[tool] for tool in equal if tool in again},
        }
        report = bench(models, seconds=factor * seconds, passes=2, **given, **sizes)
        for place, each in enumerate(report.models[1:], start=1):
            every = {
                field: ratio_of_model(own.models[place]).value
                for field, own in zip(at, report.at, strict=True)
            }
            found[each.label] = {
                "time": ratio_of_model(each).value,
                "interval": list(ratio_of_model(each).interval),
                **every,
            }
        again = {tool for tool in again if found[tool]["time"] > SLOWER}
        if not again:
            break
    sizes = {"dims": {name: lengths[len(lengths) // 2]}} if at else {"feeds": feeds}
    for each in bench(
        {"original": source, **equal}, seconds=seconds, passes=1, level="off", **given, **sizes
    ).models[1:]:
        found[each.label] |= {
            "time off": ratio_of_model(each).value,
            "interval off": list(ratio_of_model(each).interval),
        }
    return found


def ratio_of_model(times: ModelTimes) -> Ratio:
    """The ratio of a model that is not the first one."""
    assert times.ratio is not None
    return times.ratio


def mean(values: Iterable[float]) -> float:
    """The geometric mean."""
    found = [*values]
    return geometric_mean(found) if found else math.nan


def table(figures: Mapping[str, Mapping[str, Any]], field: str) -> Table:
    """Geometric means: a row for each family and one for all, a column for each optimizer."""
    tools = tools_of(figures)
    names = sorted({name.partition(".")[0] for name in figures})
    rows: list[list[str]] = []
    for family in (*names, "all"):
        those = [
            each for name, each in figures.items() if family in ("all", name.partition(".")[0])
        ]
        means = [
            mean(each[tool][field] for each in those if field in each.get(tool, {}))
            for tool in tools
        ]
        cells = ["" if math.isnan(value) else f"{value:.2f}" for value in means]
        rows.append([family, str(len(those)), *cells])
    return Table(["family", "models", *tools], rows)


def tools_of(figures: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The optimizers that were measured."""
    return [tool for tool in TOOLS if any(tool in each for each in figures.values())]


def remarks(figures: Mapping[str, Mapping[str, Any]], suffix: str = "") -> Table:
    """For each optimizer, what was slower, and what has no figure."""
    time, interval = f"time{suffix}", f"interval{suffix}"
    rows: list[list[str]] = []
    for tool in tools_of(figures):
        own = {name: each[tool] for name, each in figures.items() if tool in each}
        slower = {
            name: each[time]
            for name, each in own.items()
            if time in each and each[interval][0] > SLOWER
        }
        failed = sorted(name for name, each in own.items() if "failed" in each)
        slowest = sorted(slower.items(), key=lambda item: -item[1])[:5]
        worst = ", ".join(f"{name} {ratio:.2f}" for name, ratio in slowest)
        rows.append([tool, str(len(own) - len(failed)), str(len(slower)), worst, ", ".join(failed)])
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
"""The figures, each a table of the page, with the titles of their rows in the README."""
REMARKED = ("time", "time off")
"""Those whose tables are followed by remarks."""


def errors_of(figures: Mapping[str, Mapping[str, Any]], field: str = "error") -> Table:
    """The models whose quantized form has a larger error than the tolerance, and the others'
    number.
    """
    found = {
        name: each[INT8][field] for name, each in figures.items() if field in each.get(INT8, {})
    }
    beyond = {name: value for name, value in found.items() if value > TOLERANCE}
    within = [value for value in found.values() if value <= TOLERANCE]
    rows = [
        [f"{counted(len(within), 'model')} within {TOLERANCE:.0%}", f"{max(within, default=0):.1%}"]
    ]
    ordered = sorted(beyond.items(), key=lambda item: -item[1])
    return Table(
        ["model", "largest error"], [*rows, *([name, f"{value:.1%}"] for name, value in ordered)]
    )


def with_figure(
    figures: Mapping[str, Mapping[str, Any]], field: str
) -> dict[str, Mapping[str, Any]]:
    """The models that have a figure."""
    return {
        name: each for name, each in figures.items() if any(field in its for its in each.values())
    }


def tables_of(figures: Mapping[str, Mapping[str, Any]]) -> dict[str, Table]:
    """The tables of docs/performance.md."""
    found: dict[str, Table] = {}
    for field in TABLES:
        those = with_figure(figures, field)
        found[field] = table(those, field)
        if field in REMARKED:
            found[f"{field}, remarks"] = remarks(those, field.removeprefix("time"))
    return {**found, "errors": errors_of(figures), OWN_ERRORS: errors_of(figures, "own error")}


def machine(figures: Mapping[str, Mapping[str, Any]]) -> str:
    """How the figures were measured."""
    unchanged = [each["the same"]["time"] for each in figures.values()]
    return HEAD.format(
        machine=f"onnxruntime {onnxruntime.__version__}, {processor()}",
        noise=f"{min(unchanged):.2f} to {max(unchanged):.2f}",
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
    parser.add_argument("--tools", default="", help=f"with commas, of {', '.join(TOOLS)}")
    parser.add_argument(
        "--seconds", type=float, default=0.3, help="of measured runs of each result"
    )
    parser.add_argument(
        "--jobs", type=int, default=cores(), help="models that are measured at once"
    )
    parser.add_argument(
        "--write", action="store_true", help="write docs/performance.md and the table of the README"
    )
    given = parser.parse_args()
    kept = given.folder / "figures.json"
    figures = _load(kept)
    wanted = given.tools.split(",") if given.tools else COLUMNS
    tools = [tool for tool in wanted if tool not in PEERS or find_spec(tool) is not None]
    sources = [
        each for each in sorted(given.folder.glob("*.onnx")) if re.search(given.only, each.stem)
    ]
    start = time.perf_counter()
    with ThreadPoolExecutor(given.jobs) as pool:
        left = {
            pool.submit(apart, measured, each, tools, given.seconds): each.stem
            for each in sources
            if each.stem not in figures
        }
        for done in as_completed(left):
            figures[left[done]] = done.result()
            kept.write_text(json.dumps(dict(sorted(figures.items())), indent=1), encoding="utf-8")
            times = {
                tool: each.get("time", each.get("failed"))
                for tool, each in figures[left[done]].items()
            }
            print(f"{time.perf_counter() - start:.0f} s", left[done], times, flush=True)
    tables = tables_of(figures)
    for name, each in tables.items():
        print(f"\n{name}\n\n{each.markdown()}")
    if given.write:
        keep(PAGE, tables)
        write_between(PAGE, "machine", machine(figures))
        README.write_text(readme(README.read_text(encoding="utf-8"), tables), encoding="utf-8")


if __name__ == "__main__":
    main()
