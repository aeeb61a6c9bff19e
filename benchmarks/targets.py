"""Nodes that a target takes of original models, of default results and of results fitted to it, and
whether the fitted results compute the right values on the target.

    # models of benchmarks.zoo, or any others
    python -m benchmarks.targets FOLDER --target webgpu --software-device
    python -m benchmarks.targets FOLDER --target qnn --only vit --write
    # also measure times, of onnxslim's and onnxsim's results as well
    python -m benchmarks.targets FOLDER --target openvino --seconds 2 --write

A model may have values next to it, in ``MODEL.feeds.npz``. Times are measured on them, and for a
target that needs static shapes, their shapes fix the dynamic dimensions. Each model is fitted, and
verified on the target, as ``xopt MODEL --target NAME`` does it. The results of other installed
optimizers are verified there in the same way. All results that are right run on the target in
rounds of random order. ``--write`` adds the table to ``lab/targets.md``.
"""

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import geometric_mean
from typing import Any, Final

import click
import numpy as np
import onnx

from benchmarks.measured import Table, keep, read
from benchmarks.tools import PEERS, apart
from xoptim import OptimizationOptions, Preparation, VerificationOptions, XoptimError
from xoptim.bench import bench
from xoptim.facts.protos import fed_inputs
from xoptim.graph.sources import Source
from xoptim.optimizing.plans import Plan, VerifyPlan
from xoptim.preparation.ports import dimensions
from xoptim.targets import Placement, Target, named, place
from xoptim.targets.verifying import verify_on_target
from xoptim.workflow.fitting import FittingOutcome
from xoptim.workflow.job import Job, JobOptions

_PAGE: Final = Path(__file__).parents[1] / "lab" / "targets.md"
_HEAD: Final = "## Measured"
_PEERS: Final = ("onnxslim", "onnxsim")
_LIMIT: Final = 300.0  # seconds that another optimizer may take


@dataclass(frozen=True, slots=True)
class Row:
    """One model on one target.

    Attributes:
        model: its name.
        original: the placement of the original; ``None`` if there was an error.
        default: the placement of the default result; ``None`` if there was an error.
        fitting: the outcome of fitting.
        times: time on the target divided by the original's, by tool; ``fitted`` is the result that
            xoptim fits to the target.
        faults: why there is no time, by tool.
        error: why the model could not be optimized or placed.
    """

    model: str
    original: Placement | None = None
    default: Placement | None = None
    fitting: FittingOutcome | None = None
    times: Mapping[str, float] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def fitted(self) -> Placement | None:
        """The placement of the fitted result, if there is one."""
        if self.fitting is None or self.fitting.fitted is None:
            return None
        return self.fitting.fitted.after

    @property
    def verdict(self) -> str:
        """The outcome of the comparison on the target."""
        check = None if self.fitting is None else self.fitting.check
        if self.error or check is None:
            return self.error or "not verified"
        return f"equal, {check.error:.1g}" if check.ok else check.status

    def cells(self, tools: Sequence[str]) -> list[str]:
        """The cells of the table; a time for each tool."""
        counts = map(_counts, (self.original, self.default, self.fitted))
        return [self.model, *counts, self.verdict, *map(self._time, tools)]

    def _time(self, tool: str) -> str:
        return f"{self.times[tool]:.2f}" if tool in self.times else self.faults.get(tool, "")


def _counts(placement: Placement | None) -> str:
    """The number of nodes that the target leaves to the CPU, and of partitions."""
    if placement is None:
        return ""
    if not placement.compiles:
        return "does not compile"
    return f"{_left(placement)} left, {placement.partitions}"


def _left(placement: Placement) -> int:
    """The number of nodes that the target leaves to the CPU, shape computations included."""
    return len(placement.left) + len(placement.shapes)


def feeds_of(path: Path) -> dict[str, Any]:
    """The values next to a model."""
    values = path.with_name(f"{path.stem}.feeds.npz")
    if not values.exists():
        return {}
    with np.load(values, allow_pickle=False) as feeds:
        return dict(feeds)


def sizes_of(path: Path) -> dict[str, int]:
    """The sizes of the dynamic dimensions of a model, from the values next to it."""
    feeds = feeds_of(path)
    sizes: dict[str, int] = {}
    for value in fed_inputs(onnx.load(path, load_external_data=False)):
        if value.name in feeds:
            pairs = zip(dimensions(value.type), feeds[value.name].shape, strict=False)
            sizes.update(
                {dim.dim_param: size for dim, size in pairs if dim.dim_param.isidentifier()}
            )
    return sizes


def simplified(tool: str, source: Path, result: Path) -> None:
    """Write the result of another optimizer."""
    onnx.save(PEERS[tool](onnx.load(source)), result)


class Bench:
    """Fits models to a target, and measures them there."""

    def __init__(self, target: Target, checks: VerificationOptions, seconds: float) -> None:
        self._target, self._checks, self._seconds = target, checks, seconds
        peers = [tool for tool in _PEERS if find_spec(tool) is not None]
        self.tools = ["fitted", *peers] if seconds else []

    def measured(self, path: Path) -> Row:
        """Place the original and the default result of a model, and fit it."""
        sizes: Mapping[str, int] = sizes_of(path) if self._target.needs.static_shapes else {}
        preparation = Preparation(fix={name: [size] for name, size in sizes.items()})
        unverified = Plan(verify=VerifyPlan(whole=False))
        try:
            default = Job(path, JobOptions(preparation=preparation, plan=unverified)).run()
            options = OptimizationOptions(target=self._target.name)
            plan = Plan(verify=VerifyPlan(checks=self._checks))
            fitted = Job(
                path, JobOptions(preparation=preparation, optimization=options, plan=plan)
            ).run()
            original = self._placed(Source(path).proto, path)
            row = Row(
                path.stem, original, self._placed(default.verified.proto, path), fitted.fitting
            )
            return self._timed(row, path, fitted.verified.proto) if self._seconds else row
        except XoptimError as error:
            return Row(path.stem, error=str(error)[:80])

    def _placed(self, model: onnx.ModelProto, path: Path) -> Placement:
        return place(model, self._target, path.parent, software_device=self._checks.software_device)

    def _timed(self, row: Row, path: Path, result: onnx.ModelProto) -> Row:
        """The row with the times of all results that are right on the target."""
        times: dict[str, float] = {}
        faults: dict[str, str] = {}
        with tempfile.TemporaryDirectory() as folder:
            models: dict[str, Path] = {}
            for tool in self.tools:
                result_path = Path(folder) / f"{tool}.onnx"
                write = _writer(tool, path, result_path, result)
                fault = self._fault_of(row, tool, path, result_path, write)
                if fault:
                    faults[tool] = fault
                else:
                    models[tool] = result_path
            try:
                times = self._times({"original": path, **models}, path)
            except XoptimError as error:
                click.echo(f"{row.model} is not measured: {error}", err=True)
                faults = dict.fromkeys(self.tools, "not measured")
        return replace(row, times=times, faults=faults)

    def _fault_of(
        self, row: Row, tool: str, path: Path, result_path: Path, write: Callable[[], object]
    ) -> str:
        """Write the result of a tool; returns why it is not measured, "" if it is right."""
        try:
            write()
        except RuntimeError as error:
            return str(error)[:40]
        if tool == "fitted":
            return "" if row.fitting is not None and row.fitting.is_verified else row.verdict
        check = verify_on_target(
            path,
            onnx.load(result_path),
            self._target,
            self._checks,
            software_device=self._checks.software_device,
        )
        return "" if check.ok else check.status

    def _times(self, models: Mapping[str, Path], path: Path) -> dict[str, float]:
        report = bench(
            models,
            provider=self._target.provider,
            software_device=self._checks.software_device,
            feeds=feeds_of(path),
            seconds=self._seconds,
            compare=False,
            loading=False,
        )
        return {
            entry.label: entry.ratio.value for entry in report.models if entry.ratio is not None
        }


def _writer(
    tool: str, path: Path, result_path: Path, result: onnx.ModelProto
) -> Callable[[], object]:
    if tool == "fitted":
        return lambda: onnx.save(result, result_path)
    return lambda: apart(simplified, tool, path, result_path, limit=_LIMIT)


def totals(rows: Sequence[Row], tools: Sequence[str]) -> Iterator[str]:
    """Sums over the models that could be optimized and placed, and geometric means of times."""
    placed = [row for row in rows if row.original is not None and row.default is not None]
    before = sum(
        _left(row.original) for row in placed if row.original is not None and row.original.compiles
    )
    default = sum(
        _left(row.default) for row in placed if row.default is not None and row.default.compiles
    )
    fitted = [row.fitted for row in placed if row.fitted is not None and row.fitted.compiles]
    verified_count = sum(row.fitting is not None and row.fitting.is_verified for row in placed)
    yield (
        f"{len(placed)} models: {before} nodes left as exported, {default} by default, "
        f"{sum(map(_left, fitted))} fitted."
    )
    one_partition_count = sum(placement.partitions == 1 for placement in fitted)
    yield (
        f"Fitted: {len(fitted)} load, {one_partition_count} in one partition, {verified_count} "
        "verified on the target."
    )
    times = [row.times for row in rows if all(tool in row.times for tool in tools)]
    if tools and times:
        means = (f"{tool} {geometric_mean(ratios[tool] for ratios in times):.3f}" for tool in tools)
        yield (
            f"Time, geometric mean over the {len(times)} models where all are right: "
            f"{', '.join(means)}."
        )
        largest = max(ratios["fitted"] for ratios in times)
        yield f"The slowest fitted model takes {largest:.2f} of the original's time."


def table(rows: Sequence[Row], tools: Sequence[str]) -> Table:
    """A row for each model, with a time for each tool."""
    columns = ["model", "original", "default", "fitted", "on the target"]
    times = [f"time: {tool}" for tool in tools]
    return Table([*columns, *times], [row.cells(tools) for row in rows])


def section(target: Target, rows: Sequence[Row], tools: Sequence[str]) -> str:
    """The section of the page about a target, with its table and its `totals`."""
    caption = "Nodes that stay on the CPU, shape computations included, and partitions."
    if tools:
        caption += " Times on the target; 1.00 = original, lower is better."
    lines = [
        f"### {target.name} ({target.version})",
        "",
        caption,
        "",
        f"<!-- {target.name} -->",
        table(rows, tools).markdown(),
        "",
        *totals(rows, tools),
    ]
    return "\n".join(lines)


def written(page: str, target: Target, text: str) -> str:
    """The page with the section of a target in place of an older one."""
    head, _, rest = page.partition(f"\n{_HEAD}\n")
    sections = {
        part.split()[1]: part.strip()
        for part in re.split(r"^(?=### )", rest, flags=re.MULTILINE)
        if part.strip()
    }
    sections[target.name] = text
    parts = "\n\n".join(sections[name] for name in sorted(sections))
    return f"{head.rstrip()}\n\n{_HEAD}\n\n{parts}\n"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--target", "name", default="webgpu", show_default=True)
@click.option("--only", default="", help="Models whose names match this regular expression.")
@click.option("--software-device", is_flag=True, help="WebGPU on the CPU.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Time of measured runs for each model; 0 measures no times.",
)
@click.option("--write", is_flag=True, help="Write the table to lab/targets.md.")
def main(
    folder: Path, name: str, only: str, software_device: bool, seconds: float, write: bool
) -> None:
    """Fit all models of FOLDER to a target, and print a table."""
    target = named(name)
    runner = Bench(target, VerificationOptions(software_device=software_device), seconds)
    rows: list[Row] = []
    for path in sorted(folder.glob("*.onnx")):
        if re.search(only, path.stem):
            rows.append(runner.measured(path))
            click.echo(" | ".join(rows[-1].cells(runner.tools)))
    text = section(target, rows, runner.tools)
    click.echo(f"\n{text}")
    if write:
        _PAGE.write_text(written(_PAGE.read_text(encoding="utf-8"), target, text), encoding="utf-8")
        keep(_PAGE, {**read(_PAGE), target.name: table(rows, runner.tools)})


if __name__ == "__main__":
    main()
