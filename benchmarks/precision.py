"""Time, bytes and error of models with fewer bits, next to what other tools make of the original.

    # small models of many architectures
    python -m benchmarks.zoo models
    # --precision int8 --tolerance 2%
    python -m benchmarks.precision models
    python -m benchmarks.precision models --only "^bert" --scheme int4 --tolerance 0.1
    # write the first table of lab/precision.md
    python -m benchmarks.precision models --write figures
    # the one about bytes
    python -m benchmarks.precision models --for size --write sizes
    # of what `make real-models` downloads
    python -m benchmarks.precision .real_models/models --write trained
    python -m benchmarks.precision models --scheme float16 --provider cuda

A model NAME.onnx is measured on the values in NAME.npz, without which they are random. All results
of a model run with all of onnxruntime's optimizations on one thread of the CPU, or on a GPU, in
rounds of random order. Errors are the largest difference of an output over its largest number, on
values that did not serve to choose. The other tools are onnxruntime's own: its dynamic
quantization, and its conversion to 16 bits for that scheme; and, where onnxsim is installed, the
choice that it makes for the same tolerance.
"""

import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic

import xoptim
from benchmarks.tools import missing_provider, write_between
from xoptim.bench import BenchOptions, bench
from xoptim.optimizing.plans import Plan, VerifyPlan
from xoptim.optimizing.verified import VerifiedModel, optimize_verified
from xoptim.precision.metrics import error
from xoptim.precision.options import SCHEMES, Goal, PrecisionOptions, Scheme
from xoptim.precision.quantize import quantize
from xoptim.precision.quantized import Quantized
from xoptim.system.machine import processor
from xoptim.verification.inputs.reference import run_reference
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.session import Session, Value
from xoptim.verification.runs.session_settings import SessionSettings

PAGE: Final = Path(__file__).parent.parent / "lab" / "precision.md"
Row = tuple[str, list[float]]
Feeds = dict[str, Any]
Tool = Callable[[Path, Feeds, float], onnx.ModelProto]


def values_of(path: Path, count: int = 3) -> list[Feeds]:
    """Samples of one kind: values that were given, and the same numbers in other orders; or random
    ones.
    """
    if not path.with_suffix(".npz").exists():
        return [
            dict(run_reference(path, VerificationOptions(seed=seed, assignments=1)).runs[0].feeds)
            for seed in range(count)
        ]
    given = dict(np.load(path.with_suffix(".npz")))
    orders = [np.random.default_rng(seed) for seed in range(1, count)]
    others = [
        {name: rng.permuted(each, axis=-1) if each.ndim else each for name, each in given.items()}
        for rng in orders
    ]
    return [given, *others]


def drawn_values(path: Path, count: int) -> list[Feeds]:
    """Samples with other numbers than those that were given: floating-point numbers of their mean
    and spread, and integers up to the largest; masks, positions and lengths stay.
    """
    given, rng = dict(np.load(path.with_suffix(".npz"))), np.random.default_rng(5)
    return [{name: _drawn(name, value, rng) for name, value in given.items()} for _ in range(count)]


def _drawn(name: str, value: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if value.dtype.kind == "f" and value.std():
        numbers = rng.normal(float(value.mean()), float(value.std()), value.shape)
        return numbers.astype(value.dtype)
    is_fixed = value.size < 2 or re.search("mask|pos|len", name)
    if value.dtype.kind not in "iu" or is_fixed or value.max() < 2:
        return value
    return rng.integers(0, int(value.max()) + 1, value.shape).astype(value.dtype)


def quantized(
    path: Path, samples: list[Feeds], asked: PrecisionOptions, provider: str
) -> tuple[VerifiedModel, Quantized]:
    """The model in floats, and with fewer bits."""
    checks = VerificationOptions(providers=(provider,), threads=1)
    options, how = (
        xoptim.OptimizationOptions(provider=provider),
        Plan(verify=VerifyPlan(checks=checks, whole=False)),
    )
    verified = optimize_verified(path, options, how)
    return verified, quantize(verified, options, how, replace(asked, feeds=samples))


def errors(models: list[onnx.ModelProto], feeds: Feeds, provider: str) -> list[float]:
    """The errors of some models, relative to the first."""
    settings = SessionSettings((provider,), "all", threads=1)
    results: list[list[Value]] = [Session(each, settings).run(feeds) for each in models]
    return [error("largest", results[0], each) for each in results[1:]]


def by_onnxruntime(path: Path, feeds: Feeds, tolerance: float) -> onnx.ModelProto:
    """The original as onnxruntime quantizes it, whatever the error is."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "quantized.onnx"
        quantize_dynamic(path, result, weight_type=QuantType.QInt8, per_channel=True)
        return onnx.load(result)


def by_onnxsim(path: Path, feeds: Feeds, tolerance: float) -> onnx.ModelProto:
    """The original as onnxsim quantizes it for a tolerance."""
    made: onnx.ModelProto = import_module("onnxsim").quantize_auto(
        onnx.load(path), accuracy_budget=tolerance, calibration_data=[feeds]
    )
    return made


def in_float16(path: Path, feeds: Feeds, tolerance: float) -> onnx.ModelProto:
    """The original as onnxruntime converts it to 16 bits, but for inputs and outputs."""
    made: onnx.ModelProto = import_module(
        "onnxruntime.transformers.float16"
    ).convert_float_to_float16(onnx.load(path), keep_io_types=True)
    return made


def tools(scheme: Scheme) -> dict[str, Tool]:
    """Other tools, which make models of that kind."""
    if scheme == "float16":
        return {"convert_float_to_float16": in_float16}
    return {
        "quantize_dynamic": by_onnxruntime,
        **({"onnxsim": by_onnxsim} if find_spec("onnxsim") else {}),
    }


def measure(path: Path, asked: PrecisionOptions, provider: str, seconds: float) -> Row:
    """The figures of a model: the time in floats; then time, error and bytes of ours, and of each
    tool, NaN where it fails.
    """
    first, second, third = values_of(path)
    verified, ours = quantized(path, [first, second], asked, provider)
    original = onnx.load(path)
    models, found = {"original": original, "float": verified.proto, "ours": ours.verified.proto}, {}
    for name, tool in tools(asked.scheme).items():
        try:
            made = tool(path, first, asked.tolerance)
            found[name] = errors([original, made], third, provider)[0]
        except Exception as reason:  # a tool raises anything
            print(f"{path.stem}: {name}: {reason}", file=sys.stderr)
            continue
        models[name] = made
    found["ours"] = errors([original, ours.verified.proto], third, provider)[0]
    options = BenchOptions(
        provider=provider, threads=1, seconds=seconds, feeds=first, compare=False, loading=False
    )
    report = bench(models, options)
    times = {each.label: each.ratio.value for each in report.models if each.ratio is not None}
    figures = [times["float"]]
    for name in ("ours", *tools(asked.scheme)):
        known = name in models
        figures += (
            (times[name], found[name], models[name].ByteSize() / original.ByteSize())
            if known
            else (np.nan,) * 3
        )
    operators = {
        each.result for each in ours.candidates if not each.reads and not each.is_weight_only
    }
    computed = ours.operators.keys()
    return f"{path.stem} | {len(operators & computed)} of {len(operators)}", figures


def line(name: str, figures: Sequence[float]) -> str:
    """A row of the table."""
    formats = [".2f", *([".2f", ".2%", ".2f"] * (len(figures) // 3))]
    cells = [
        "" if np.isnan(each) else format(each, form)
        for each, form in zip(figures, formats, strict=True)
    ]
    cells[1] = f"**{cells[1]}**"
    return f"| {name} | {' | '.join(cells)} |"


def means(rows: Sequence[Row]) -> str:
    """A row of geometric means, and of the largest errors."""
    figures = np.array([each for _, each in rows])
    found = np.exp(np.nanmean(np.log(np.maximum(figures, 1e-9)), axis=0))
    found[2::3] = np.nanmax(figures[:, 2::3], axis=0)
    return line(f"geometric mean of {len(rows)}, largest error |", found.tolist())


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--only", default="", help="Regular expression for names of models.")
@click.option("--scheme", type=click.Choice(SCHEMES), default="int8")
@click.option("--tolerance", default=0.02)
@click.option("--for", "goal", type=click.Choice(("speed", "size")), default="speed")
@click.option("--provider", default="cpu", help="Execution provider.")
@click.option("--seconds", default=2.0, help="For each model.")
@click.option(
    "--write",
    type=click.Choice(("figures", "sizes", "trained")),
    help="Write a table of lab/precision.md.",
)
def main(
    folder: Path,
    only: str,
    scheme: Scheme,
    tolerance: float,
    goal: Goal,
    provider: str,
    seconds: float,
    write: str | None,
) -> None:
    """Print a row for each model, and geometric means."""
    if reason := missing_provider(provider):
        raise SystemExit(f"nothing measured: {reason}")
    asked = PrecisionOptions(scheme=scheme, tolerance=tolerance, goal=goal)
    rows: list[Row] = []
    peers = tools(scheme)
    others = "".join(f" {name} | its error | its bytes |" for name in peers)
    lines = [
        f"| model | MatMuls | float | {scheme} | error | bytes |{others}",
        "|---|" + "---:|" * (5 + 3 * len(peers)),
    ]
    for path in sorted(folder.rglob("*.onnx")):
        if not re.search(only, path.stem):
            continue
        try:
            rows.append(measure(path, asked, provider, seconds))
        except Exception as reason:  # of the other tool too, which raises anything
            print(f"{path.stem}: {reason}", file=sys.stderr)
            continue
        lines.append(line(*rows[-1]))
        print(lines[-1], flush=True)
    lines.append(means(rows))
    print(lines[-1])
    if write:
        write_between(PAGE, write, "\n".join([*lines, "", f"{processor()}."]))


if __name__ == "__main__":
    main()
