"""The page about the models of published packages, and the lines that are printed during the
runs.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import onnx
import onnxruntime

from benchmarks.measured import Table, keep
from benchmarks.tools import write_between
from lab.real_models.running import OUT_OF_TIME, SELECTIONS, Row
from lab.real_models.table import Model

PAGE = Path(__file__).resolve().parents[1] / "real-models.md"
MODELS, OTHERS = "models", "others"


def tables_of(rows: Sequence[Row]) -> dict[str, Table]:
    """The tables of the page: all models, and the reasons of exit codes other than 0."""
    selections = [f"`{selection}`" for selection in SELECTIONS]
    columns = ["package", "field", "model", "exporter", "opset", "nodes", *selections]
    reasons = [
        [row.package.name, f"`{file_name(row.model)}`", _why(row)]
        for row in rows
        if any(run.code for run in row.runs)
    ]
    return {
        MODELS: Table([*columns, "seconds", "exit codes"], list(map(_cells, rows))),
        OTHERS: Table(["package", "model", "why"], reasons),
    }


def write(rows: Sequence[Row]) -> None:
    """Write the page, and the file with its tables."""
    keep(PAGE, tables_of(rows))
    versions = f"Onnx {onnx.__version__} and onnxruntime {onnxruntime.__version__} on a CPU."
    write_between(PAGE, "figures", f"{versions} {summary(rows)}.")


def _cells(row: Row) -> tuple[str, ...]:
    """The cells of a row. File names are in backquotes, as Markdown interprets underscores."""
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
    """The name of a model on the page: its file name, which is unique in the package."""
    return PurePosixPath(model.member).name


def _code(code: int) -> str:
    return "out of time" if code == OUT_OF_TIME else str(code)


def _why(row: Row) -> str:
    message = next(run.says for run in row.runs if run.code)
    return f"{message.rstrip('.')}. {row.model.reason}".replace("<", "&lt;").strip()


def line(row: Row) -> str:
    """A line to print."""
    codes = "/".join(_code(run.code) for run in row.runs)
    nodes = " -> ".join(map(str, (row.runs[0].before, *(run.after for run in row.runs))))
    seconds = sum(run.seconds for run in row.runs)
    message = next((run.says for run in row.runs if run.says), "equal")
    return (
        f"{row.package.name} {row.model.member}: {nodes} nodes, {seconds:.0f} s, exit {codes}: "
        f"{message}"
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
