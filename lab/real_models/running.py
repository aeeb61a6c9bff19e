"""Run ``xopt`` on a model, in a process of its own, and judge the outcome."""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import onnx

from lab.real_models.table import Model, Package

SELECTIONS = ("default", "default+onnxruntime")
NOT_VERIFIED = 3
OUT_OF_TIME = -1000
"""Exit code of a run that exceeded the time limit. No signal has this number."""
_COMMAND = "from xoptim.cli.main import main; main()"


class Run(NamedTuple):
    """The outcome of a run.

    Attributes:
        code: exit code; a negative one is the signal that ended the process, or `OUT_OF_TIME`.
        seconds: time of the run.
        before: number of nodes of the model.
        after: number of nodes of the result.
        says: the last warning or error for an exit code other than 0; otherwise the rewrites that
            were dropped because verification found them wrong, "" for none.
        healed: whether rewrites were dropped.
    """

    code: int
    seconds: float
    before: int = 0
    after: int = 0
    says: str = ""
    healed: bool = False


class Row(NamedTuple):
    """A model and its runs.

    Attributes:
        package: the package of the model.
        model: the row of the model in the table.
        exporter: name and version of the exporter that wrote the file.
        opset: version of the operator set of the default domain.
        runs: one run for each of `SELECTIONS`.
    """

    package: Package
    model: Model
    exporter: str
    opset: int
    runs: tuple[Run, ...]


def try_model(package: Package, model: Model, path: Path, limit: float) -> Row:
    """Run the command with each selection.

    Args:
        package: the package of the model.
        model: the row of the model in the table.
        path: the file of the model.
        limit: seconds after which a run is stopped.
    """
    proto = onnx.load(path, load_external_data=False)
    version = proto.producer_version.partition(" ")[0]  # a commit may follow
    exporter = f"{proto.producer_name or model.exporter} {version}".strip()
    opset = next(
        (entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), 0
    )
    return Row(
        package,
        model,
        exporter,
        opset,
        tuple(run(path, s, model.options, limit) for s in SELECTIONS),
    )


def run(path: Path, selection: str, options: tuple[str, ...], limit: float) -> Run:
    """Run the command once; its result goes to a folder that is removed."""
    with tempfile.TemporaryDirectory() as folder:
        command = (
            sys.executable,
            "-c",
            _COMMAND,
            str(path),
            "-o",
            f"{folder}/result.onnx",
            "--patterns",
            selection,
            *options,
            "--json",
        )
        start = time.monotonic()
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            return Run(OUT_OF_TIME, limit, says=f"stopped after {limit:.0f} s")
        return outcome(done.returncode, time.monotonic() - start, done.stdout, done.stderr)


def outcome(code: int, seconds: float, out: str, err: str) -> Run:
    """The outcome of a process that has ended.

    Args:
        code: exit code of the process.
        seconds: time of the run.
        out: standard output, which is JSON unless the command failed early.
        err: standard error.
    """
    try:
        document: dict[str, Any] = json.loads(out)
    except json.JSONDecodeError:
        document = {}
    dropped = [str(culprit) for culprit in document.get("dropped", ())]
    lines = re.findall(r"^xopt: (?:error|warning): (.+)", err, re.MULTILINE)
    failure = f"ended by signal {-code}" if code < 0 else "no error line"
    says = (lines or [failure])[-1] if code else "; ".join(dropped)
    before, after = document.get("nodes_before", 0), document.get("nodes_after", 0)
    return Run(code, seconds, before, after, says, bool(dropped))


def faults(row: Row) -> Iterator[str]:
    """The faults in the runs of a model.

    A fault is an exit code that the table does not explain, a dropped rewrite, or an explanation of
    the table that no run needs.
    """
    model = row.model
    name = f"{row.package.name} {model.member}"
    for selection, result in zip(SELECTIONS, row.runs, strict=True):
        is_explained = result.code == NOT_VERIFIED and model.says and model.says in result.says
        if result.healed or (result.code and not is_explained):
            yield f"{name} with {selection}: exit code {result.code}: {result.says}"
    if model.says and not any(result.code for result in row.runs):
        yield f"{name}: every run exits with 0, but the table has a reason for exit code 3"
