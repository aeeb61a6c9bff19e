"""Running the plain command on a model, in a process of its own, and judging how it ended."""

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
"""Stands for an exit code, for a run that was stopped. No signal has that number."""
_COMMAND = "from xoptim.cli.main import main; main()"


class Run(NamedTuple):
    """How the command ended.

    Attributes:
        code: exit code; negative: the signal that ended it, or `OUT_OF_TIME`.
        seconds: that it took.
        before: number of nodes.
        after: number of nodes of the result.
        says: its last warning or error, or the rewrites that it left out because they were wrong;
            empty when all was well.
        healed: whether it left rewrites out.
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
        package: where the model is from.
        model: which one it is.
        exporter: what wrote the file, with its version.
        opset: version of the operators of the default domain.
        runs: one for each of `SELECTIONS`.
    """

    package: Package
    model: Model
    exporter: str
    opset: int
    runs: tuple[Run, ...]


def try_model(package: Package, model: Model, path: Path, limit: float) -> Row:
    """Run the command with each selection.

    Args:
        package: where the model is from.
        model: its row in the table.
        path: its file.
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
        words = (
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
            done = subprocess.run(words, capture_output=True, text=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return Run(OUT_OF_TIME, limit, says=f"stopped after {limit:.0f} s")
        return outcome(done.returncode, time.monotonic() - start, done.stdout, done.stderr)


def outcome(code: int, seconds: float, out: str, err: str) -> Run:
    """The outcome of an ended process.

    Args:
        code: its exit code.
        seconds: that it took.
        out: its standard output: JSON, unless the command failed early.
        err: its standard error.
    """
    try:
        told: dict[str, Any] = json.loads(out)
    except json.JSONDecodeError:
        told = {}
    dropped = [str(culprit) for culprit in told.get("dropped", ())]
    lines = re.findall(r"^xopt: (?:error|warning): (.+)", err, re.MULTILINE)
    failure = f"ended by signal {-code}" if code < 0 else "no error line"
    says = (lines or [failure])[-1] if code else "; ".join(dropped)
    return Run(
        code, seconds, told.get("nodes_before", 0), told.get("nodes_after", 0), says, bool(dropped)
    )


def faults(row: Row) -> Iterator[str]:
    """The fault in the runs of a model: a failure without the recorded reason, or a stale
    reason.
    """
    model = row.model
    name = f"{row.package.name} {model.member}"
    for selection, each in zip(SELECTIONS, row.runs, strict=True):
        excused = each.code == NOT_VERIFIED and model.says and model.says in each.says
        if each.healed or (each.code and not excused):
            yield f"{name} with {selection}: exit code {each.code}: {each.says}"
    if model.says and not any(each.code for each in row.runs):
        yield f"{name}: every run exits with 0, but a reason why not is recorded"
