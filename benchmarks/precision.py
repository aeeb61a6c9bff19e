"""Time, bytes and error of quantized models, compared with the results of other quantizers.

    # small models of many architectures
    python -m benchmarks.zoo models
    # --precision int8 --tolerance 2%
    python -m benchmarks.precision models
    python -m benchmarks.precision models --only "^bert" --scheme int4 --tolerance 0.1
    # write the first table of lab/precision.md
    python -m benchmarks.precision models --write figures
    # write the table of sizes
    python -m benchmarks.precision models --for size --write sizes
    # the models that `make real-models` downloads
    python -m benchmarks.precision .real_models/models --write trained
    python -m benchmarks.precision models --scheme float16 --provider cuda

A model NAME.onnx is measured on the values in NAME.npz, or on random values without this file. All
results of a model run with all ORT graph optimizations on one CPU thread, or on a GPU, in rounds of
random order. The error is the largest difference of an output divided by its largest magnitude, on
a sample that quantization has not seen. The other tools are onnxruntime's dynamic quantization, its
float16 conversion for that scheme, and onnxsim for the same tolerance if it is installed.
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
    """Samples for a model: the values in its file, then the same values permuted along the last
    axis. Without a file, all samples are random.
    """
    if not path.with_suffix(".npz").exists():
        return [
            dict(run_reference(path, VerificationOptions(seed=seed, assignments=1)).runs[0].feeds)
            for seed in range(count)
        ]
    feeds = dict(np.load(path.with_suffix(".npz")))
    generators = [np.random.default_rng(seed) for seed in range(1, count)]
    permuted_feeds = [
        {
            name: rng.permuted(value, axis=-1) if value.ndim else value
            for name, value in feeds.items()
        }
        for rng in generators
    ]
    return [feeds, *permuted_feeds]


def drawn_values(path: Path, count: int) -> list[Feeds]:
    """Random samples that resemble the values in the file of a model.

    Floats are normal with the same mean and deviation, integers go up to the same maximum. Masks,
    positions, lengths and single numbers are unchanged.
    """
    feeds, rng = dict(np.load(path.with_suffix(".npz"))), np.random.default_rng(5)
    return [
        {name: _random(name, value, rng) for name, value in feeds.items()} for _ in range(count)
    ]


def _random(name: str, value: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if value.dtype.kind == "f" and value.std():
        numbers = rng.normal(float(value.mean()), float(value.std()), value.shape)
        return numbers.astype(value.dtype)
    is_fixed = value.size < 2 or re.search("mask|pos|len", name)
    if value.dtype.kind not in "iu" or is_fixed or value.max() < 2:
        return value
    return rng.integers(0, int(value.max()) + 1, value.shape).astype(value.dtype)


def quantized(
    path: Path, samples: list[Feeds], precision: PrecisionOptions, provider: str
) -> tuple[VerifiedModel, Quantized]:
    """The optimized model in float32, and the quantized one."""
    checks = VerificationOptions(providers=(provider,), threads=1)
    options = xoptim.OptimizationOptions(provider=provider)
    plan = Plan(verify=VerifyPlan(checks=checks, whole=False))
    float_model = optimize_verified(path, options, plan)
    return float_model, quantize(float_model, options, plan, replace(precision, feeds=samples))


def errors(models: list[onnx.ModelProto], feeds: Feeds, provider: str) -> list[float]:
    """The errors of all models but the first, which is the reference."""
    settings = SessionSettings((provider,), "all", threads=1)
    results: list[list[Value]] = [Session(model, settings).run(feeds) for model in models]
    return [error("largest", results[0], outputs) for outputs in results[1:]]


def by_onnxruntime(path: Path, feeds: Feeds, tolerance: float) -> onnx.ModelProto:
    """The original after onnxruntime's dynamic quantization, which ignores the tolerance."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "quantized.onnx"
        quantize_dynamic(path, result, weight_type=QuantType.QInt8, per_channel=True)
        return onnx.load(result)


def by_onnxsim(path: Path, feeds: Feeds, tolerance: float) -> onnx.ModelProto:
    """The original as onnxsim quantizes it for a tolerance."""
    result: onnx.ModelProto = import_module("onnxsim").quantize_auto(
        onnx.load(path), accuracy_budget=tolerance, calibration_data=[feeds]
    )
    return result


def in_float16(path: Path, feeds: Feeds, tolerance: float) -> onnx.ModelProto:
    """The original after onnxruntime's float16 conversion, with inputs and outputs in float32."""
    result: onnx.ModelProto = import_module(
        "onnxruntime.transformers.float16"
    ).convert_float_to_float16(onnx.load(path), keep_io_types=True)
    return result


def tools(scheme: Scheme) -> dict[str, Tool]:
    """The other tools that can quantize by a scheme, by name."""
    if scheme == "float16":
        return {"convert_float_to_float16": in_float16}
    return {
        "quantize_dynamic": by_onnxruntime,
        **({"onnxsim": by_onnxsim} if find_spec("onnxsim") else {}),
    }


def measure(path: Path, precision: PrecisionOptions, provider: str, seconds: float) -> Row:
    """The name of a model with the number of quantized operators, and its figures.

    The figures are the time of the float32 model, then time, error and bytes of xoptim's result and
    of each other tool's, NaN for a tool that fails. Times and bytes are divided by the original's.
    """
    first, second, third = values_of(path)
    float_model, result = quantized(path, [first, second], precision, provider)
    original = onnx.load(path)
    models = {"original": original, "float": float_model.proto, "xoptim": result.verified.proto}
    error_of = {"xoptim": errors([original, models["xoptim"]], third, provider)[0]}
    for name, tool in tools(precision.scheme).items():
        try:
            model = tool(path, first, precision.tolerance)
            error_of[name] = errors([original, model], third, provider)[0]
        except Exception as reason:  # other packages raise any exception
            print(f"{path.stem}: {name}: {reason}", file=sys.stderr)
            continue
        models[name] = model
    options = BenchOptions(
        provider=provider, threads=1, seconds=seconds, feeds=first, compare=False, loading=False
    )
    report = bench(models, options)
    times = {entry.label: entry.ratio.value for entry in report.models if entry.ratio is not None}
    figures = [times["float"]]
    for name in ("xoptim", *tools(precision.scheme)):
        figures += (
            (times[name], error_of[name], models[name].ByteSize() / original.ByteSize())
            if name in models
            else (np.nan,) * 3
        )
    operators = {
        candidate.result
        for candidate in result.candidates
        if not candidate.reads and not candidate.is_weight_only
    }
    quantized_count = len(operators & result.operators.keys())
    return f"{path.stem} | {quantized_count} of {len(operators)}", figures


def line(name: str, figures: Sequence[float]) -> str:
    """A row of the table."""
    formats = [".2f", *([".2f", ".2%", ".2f"] * (len(figures) // 3))]
    cells = [
        "" if np.isnan(figure) else format(figure, form)
        for figure, form in zip(figures, formats, strict=True)
    ]
    cells[1] = f"**{cells[1]}**"
    return f"| {name} | {' | '.join(cells)} |"


def means(rows: Sequence[Row]) -> str:
    """A row of the geometric means of times and bytes, and the largest errors."""
    figures = np.array([row_figures for _, row_figures in rows])
    totals = np.exp(np.nanmean(np.log(np.maximum(figures, 1e-9)), axis=0))
    totals[2::3] = np.nanmax(figures[:, 2::3], axis=0)
    return line(f"geometric mean of {len(rows)}, largest error |", totals.tolist())


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--only", default="", help="Regular expression for names of models.")
@click.option("--scheme", type=click.Choice(SCHEMES), default="int8")
@click.option("--tolerance", default=0.02)
@click.option("--for", "goal", type=click.Choice(("speed", "size")), default="speed")
@click.option("--provider", default="cpu", help="Execution provider.")
@click.option("--seconds", default=2.0, help="Time of measured runs for each model.")
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
    precision = PrecisionOptions(scheme=scheme, tolerance=tolerance, goal=goal)
    rows: list[Row] = []
    peers = tools(scheme)
    peer_heads = "".join(f" {name} | its error | its bytes |" for name in peers)
    lines = [
        f"| model | MatMuls | float | {scheme} | error | bytes |{peer_heads}",
        "|---|" + "---:|" * (5 + 3 * len(peers)),
    ]
    for path in sorted(folder.rglob("*.onnx")):
        if not re.search(only, path.stem):
            continue
        try:
            rows.append(measure(path, precision, provider, seconds))
        except Exception as reason:  # other packages raise any exception
            print(f"{path.stem}: {reason}", file=sys.stderr)
            continue
        lines.append(line(*rows[-1]))
        print(lines[-1], flush=True)
    if not rows:
        raise click.ClickException(f"nothing measured: no model of {folder} could be measured")
    lines.append(means(rows))
    print(lines[-1])
    if write:
        write_between(PAGE, write, "\n".join([*lines, "", f"{processor()}."]))


if __name__ == "__main__":
    main()
