"""Nodes and time of optimized models, beside those of other optimizers, in the same rounds.

    python -m benchmarks.zoo models                           # small models of many architectures
    pip install onnxsim onnxslim onnxscript                   # the peers; those that are not installed are left out
    python -m benchmarks.performance models                   # default seconds: about a minute for each model
    python -m benchmarks.performance models --only "^bert" --tools "xopt,xopt newest" --level off
    python -m benchmarks.performance models --write           # write docs/performance.md from all that was measured

A model FAMILY.NAME.EXPORTER.onnx is measured on the values in FAMILY.NAME.EXPORTER.npz. Each optimizer works in a process of
its own; a result that is not equal to the original is not measured. All results of a model run on one thread of the CPU, with
all of onnxruntime's own optimizations or without them, in rounds of random order. Results that look slower than the original
are measured again, three times as long. Figures are kept in FOLDER/figures.LEVEL.json: a run that was interrupted goes on where
it ended.
"""

import argparse
import json
import math
import pathlib
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from statistics import geometric_mean
from typing import Any, Literal

import numpy as np
import onnx
import onnxruntime

import xoptim
from benchmarks.process import apart
from benchmarks.tools import PEERS, offline
from xoptim.bench import bench
from xoptim.facts.protos import inner_graphs
from xoptim.system.processor import processor

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "performance.md"
HEAD = """# Performance

Small models of many architectures with random weights, as torch's two exporters and others write them, optimized by xoptim and
by other tools. All figures are divided by those of the original, and averaged geometrically; below 1 is better. A result that
is not equal to the original has none. The columns are the optimizers that were measured (`--tools`).

```sh
python -m benchmarks.zoo models                     # make the models
python -m benchmarks.performance models --write     # measure, and write this page
python -m benchmarks.performance models --level off --write
```

One thread of the CPU, processor time, batch 1, 64 tokens or one image, rounds of random order. {machine}.
The unchanged model beside itself took {noise} of its time.

`newest` is `--opset newest`, and `onnxruntime` is `--patterns default+onnxruntime`. `onnxruntime offline` is the model that
onnxruntime itself saves after its own optimizations (extended).

Models with equal parts side by side, such as ensembles, tables of embeddings and circuits, have
[a table of their own](repeated.md#where-it-pays).
"""
SLOWER = 1.02
_LIMIT = 300  # seconds that an optimizer may take


def _xopt(patterns: str, opset: Literal["newest"] | None = None) -> Callable[[onnx.ModelProto], onnx.ModelProto]:
    return lambda model: xoptim.optimize(model, patterns=patterns, opset=opset)


TOOLS: dict[str, Callable[[onnx.ModelProto], onnx.ModelProto]] = {
    "xopt": _xopt("default"),
    "xopt newest": _xopt("default", "newest"),
    "xopt onnxruntime": _xopt("default+onnxruntime"),
    "xopt onnxruntime newest": _xopt("default+onnxruntime", "newest"),
    "onnxruntime offline": offline,
    **PEERS,
}
"""Optimizers by name."""


def number_of_nodes(graph: onnx.GraphProto) -> int:
    """Nodes of a graph and of its subgraphs, without constants."""
    return sum(node.op_type != "Constant" for each in (graph, *inner_graphs(graph.node)) for node in each.node)


def size_of(path: pathlib.Path) -> int:
    """Number of nodes of a file, whose weights are not read, with the bodies of functions in place of their calls."""
    return number_of_nodes(onnx.inliner.inline_local_functions(onnx.load(path, load_external_data=False)).graph)


def optimize(tool: str, source: pathlib.Path, target: pathlib.Path) -> None:
    """Optimize a file."""
    onnx.save(TOOLS[tool](onnx.load(source)), target)


def measured(source: pathlib.Path, tools: Iterable[str], level: str, seconds: float) -> dict[str, Any]:
    """For each optimizer, nodes and time divided by those of the original, or why there are none."""
    feeds = dict(np.load(source.with_suffix(".npz")))
    before = size_of(source)
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = {tool: pathlib.Path(folder) / f"{tool.replace(' ', '_')}.onnx" for tool in tools}
        for tool, path in paths.items():
            try:
                apart(optimize, tool, source, path, limit=_LIMIT)
            except RuntimeError as error:
                figures[tool] = {"failed": str(error)}
                continue
            report = xoptim.verify(source, path, xoptim.ValidationOptions(feeds=feeds))
            figures[tool] = {"nodes": size_of(path) / before} if report.ok else {"failed": "not equal"}
        equal = {tool: path for tool, path in paths.items() if "nodes" in figures[tool]}
        again = set(equal)
        for factor in (1, 3):
            models = {"original": source, "the same": source, **{tool: equal[tool] for tool in equal if tool in again}}
            given: Any = {"threads": 1, "level": level, "feeds": feeds, "compare": False, "loading": False}
            for each in bench(models, seconds=factor * seconds, **given).models[1:]:
                if each.ratio is not None:
                    figures.setdefault(each.label, {}).update(time=each.ratio.value, interval=list(each.ratio.interval))
            again = {tool for tool in again if figures[tool]["time"] > SLOWER}
            if not again:
                break
    return figures


def mean(values: Iterable[float]) -> float:
    """The geometric mean."""
    found = [*values]
    return geometric_mean(found) if found else math.nan


def table(figures: Mapping[str, Mapping[str, Any]], field: str) -> list[str]:
    """A table of geometric means: a row for each family and one for all models, a column for each optimizer."""
    tools = [tool for tool in TOOLS if any(tool in each for each in figures.values())]
    names = sorted({name.partition(".")[0] for name in figures})
    lines = [f"| family | models | {' | '.join(tools)} |", "|---|---:|" + "---:|" * len(tools)]
    for family in (*names, "all"):
        those = [each for name, each in figures.items() if family in ("all", name.partition(".")[0])]
        means = [mean(each[tool][field] for each in those if field in each.get(tool, {})) for tool in tools]
        lines.append(
            f"| {family} | {len(those)} | {' | '.join('' if math.isnan(value) else f'{value:.2f}' for value in means)} |"
        )
    return lines


def remarks(figures: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """For each optimizer, what was slower, and what has no figure."""
    lines = []
    for tool in [tool for tool in TOOLS if any(tool in each for each in figures.values())]:
        own = {name: each[tool] for name, each in figures.items() if tool in each}
        slower = {name: each["time"] for name, each in own.items() if "time" in each and each["interval"][0] > SLOWER}
        failed = sorted(name for name, each in own.items() if "failed" in each)
        worst = ", ".join(f"{name} {time:.2f}" for name, time in sorted(slower.items(), key=lambda item: -item[1])[:5])
        lines.append(f"| {tool} | {len(own) - len(failed)} | {len(slower)} | {worst} | {', '.join(failed)} |")
    return ["| optimizer | measured | slower | the slowest | no equal result |", "|---|---:|---:|---|---|", *lines]


def page(by_level: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """docs/performance.md."""
    every = next(iter(by_level.values()))
    unchanged = [each["the same"]["time"] for each in every.values()]
    machine = f"onnxruntime {onnxruntime.__version__}, {processor()}"
    noise = f"{min(unchanged):.2f} to {max(unchanged):.2f}"
    parts = [HEAD.format(machine=machine, noise=noise), "## Nodes", "", *table(every, "nodes")]
    titles = {"all": "## Time, with all of onnxruntime's own optimizations", "off": "## Time, without them"}
    for level, figures in by_level.items():
        parts += ["", titles[level], "", *table(figures, "time"), "", *remarks(figures)]
    return "\n".join(parts) + "\n"


def _load(path: pathlib.Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def main() -> None:
    """Measure, keep the figures, print the tables, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="", help="regular expression for names of models")
    parser.add_argument("--tools", default="", help=f"of {', '.join(TOOLS)}")
    parser.add_argument("--level", choices=("all", "off"), default="all", help="onnxruntime's own optimizations")
    parser.add_argument("--seconds", type=float, default=1.0, help="of measured runs of each result")
    parser.add_argument("--write", action="store_true", help="write docs/performance.md")
    given = parser.parse_args()
    kept = given.folder / f"figures.{given.level}.json"
    figures = _load(kept)
    tools = given.tools.split(",") if given.tools else list(TOOLS)
    for source in sorted(given.folder.glob("*.onnx")):
        if re.search(given.only, source.stem) and source.stem not in figures:
            figures[source.stem] = measured(source, tools, given.level, given.seconds)
            kept.write_text(json.dumps(figures, indent=1), encoding="utf-8")
            print(
                source.stem,
                {tool: each.get("time", each.get("failed")) for tool, each in figures[source.stem].items()},
                flush=True,
            )
    text = page({level: each for level in ("all", "off") if (each := _load(given.folder / f"figures.{level}.json"))})
    print(text)
    if given.write:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
