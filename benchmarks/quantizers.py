"""Size, error and time of int8 models: xoptim, onnxruntime.quantization and NNCF.

    # models of many architectures, as torch exports them
    python -m benchmarks.zoo models
    python -m benchmarks.quantizers models
    # with NNCF and OpenVINO of another environment; write the table of docs/quantization.md
    python -m benchmarks.quantizers models --nncf ENVIRONMENT/bin/python --write

Each tool gets the original and the same samples: the values in NAME.npz, and permutations of them.
The error on a sample is the root mean square of the difference divided by the root mean square of
the original's outputs; the table has the mean over samples that no tool has seen. Times are medians
of paired rounds on one thread, in ONNX Runtime on the CPU and in OpenVINO, divided by the time of
the original in the same runtime. OpenVINO is called directly: its execution provider finds no
device on CPUs of other vendors.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any, Final

import click
import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

import xoptim
from benchmarks.measured import Table, keep, read
from xoptim.bench import BenchOptions, bench
from xoptim.optimizing.plans import Plan, VerifyPlan
from xoptim.optimizing.verified import VerifiedModel, optimize_verified
from xoptim.precision.metrics import error
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.quantize import quantize
from xoptim.system.machine import processor
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.session import Session
from xoptim.verification.runs.session_settings import SessionSettings

PAGE: Final = Path(__file__).parents[1] / "docs" / "quantization.md"
TABLE: Final = "quantizers"
QUANTIZERS: Final = ("float32", "dynamic", "static", "static, all", "quantize_static", "NNCF")
MEASURES: Final = ("error", "size", "ONNX Runtime", "OpenVINO")
MODELS: Final = (
    r"^(bert\.bert|vision\.vit|cnn\.resnet|decoder\.(gpt2|llama)|encoder\.whisper_encoder)\.script$"
)
"""Traced models: NNCF 3.4 fails for weights that the graph transposes, as dynamo writes them."""
_CALIBRATION_SAMPLES: Final = 4
_HELD_OUT_SAMPLES: Final = 4
_MIN_ERROR: Final = 1e-9
"""Smaller errors count as this one in a geometric mean, which 0 would make 0."""
_TOLERANCE: Final = 0.02
_MAX_TOLERANCE: Final = 0.9
"""A tolerance that lets every operator be quantized."""
_NNCF: Final = """
import sys
from pathlib import Path
import nncf, numpy, onnx
model, result, folder, kind = sys.argv[1:]
samples = [dict(numpy.load(path)) for path in sorted(Path(folder).glob("*.npz"))]
options = {"model_type": nncf.ModelType.TRANSFORMER} if kind == "transformer" else {}
quantized = nncf.quantize(
    onnx.load(model), nncf.Dataset(samples), subset_size=len(samples), **options
)
onnx.save(quantized, result)
"""
_OPENVINO: Final = """
import json, random, sys, time
from pathlib import Path
from statistics import median
import numpy, openvino
folder, seconds, names = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
feeds = dict(numpy.load(Path(folder) / "feeds.npz"))
settings = {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY"}
requests, failed = {}, {}
for name in names:
    try:
        compiled = openvino.Core().compile_model(Path(folder) / f"{name}.onnx", "CPU", settings)
        requests[name] = compiled.create_infer_request()
        requests[name].infer(feeds)
    except Exception as error:
        failed[name] = str(error)
        requests.pop(name, None)
rounds, start = [], time.perf_counter()
while len(rounds) < 5 or time.perf_counter() - start < seconds * len(requests):
    times = {}
    for name in random.sample(list(requests), len(requests)):
        requests[name].infer(feeds)  # warm up: the CPU caches hold another model
        begin, runs = time.process_time(), 0
        while not runs or time.process_time() - begin < 0.02:
            requests[name].infer(feeds)
            runs += 1
        times[name] = (time.process_time() - begin) / runs
    rounds.append(times)
first = names[0]
ratios = {name: median(times[name] / times[first] for times in rounds[1:]) for name in requests}
print(json.dumps({"ratios": ratios, "failed": failed}))
"""
"""A script that prints the time of each model divided by the first one's, and the errors of models
that do not run.
"""
Feeds = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Subject:
    """A model and its samples.

    Attributes:
        path: file of the original.
        calibration: samples that the tools use to quantize.
        held_out: samples that no tool sees.
    """

    path: Path
    calibration: Sequence[Feeds]
    held_out: Sequence[Feeds]

    @property
    def kind(self) -> str:
        """The kind of architecture, as NNCF distinguishes them."""
        return "cnn" if self.path.stem.startswith("cnn.") else "transformer"


def subject_of(path: Path) -> Subject:
    """A model with the values in the file of its name, and with permutations of them."""
    values = dict(np.load(path.with_suffix(".npz")))
    samples = [values]
    for seed in range(1, _CALIBRATION_SAMPLES + _HELD_OUT_SAMPLES):
        rng = np.random.default_rng(seed)
        samples.append(
            {
                name: rng.permuted(value, axis=-1) if value.ndim else value
                for name, value in values.items()
            }
        )
    return Subject(path, samples[:_CALIBRATION_SAMPLES], samples[_CALIBRATION_SAMPLES:])


class _Reader(CalibrationDataReader):  # type: ignore[misc]
    """Gives samples to the calibration of onnxruntime."""

    def __init__(self, samples: Sequence[Feeds]) -> None:
        self._iterator: Iterator[Feeds] = iter(samples)

    def get_next(self) -> Feeds | None:
        """The next sample, ``None`` at the end."""
        return next(self._iterator, None)


def by_quantize_static(model: Subject) -> onnx.ModelProto:
    """The original after pre-processing and ``quantize_static`` of onnxruntime, in QDQ format."""
    with tempfile.TemporaryDirectory() as folder:
        prepared, result = Path(folder) / "prepared.onnx", Path(folder) / "quantized.onnx"
        # onnxruntime's symbolic shape inference fails for some shapes of transformers
        quant_pre_process(str(model.path), str(prepared), skip_symbolic_shape=True)
        quantize_static(
            str(prepared),
            str(result),
            _Reader(model.calibration),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
        )
        return onnx.load(result)


def by_nncf(model: Subject, python: Path) -> onnx.ModelProto:
    """The original after post-training quantization by NNCF, with its defaults for the
    architecture.
    """
    with tempfile.TemporaryDirectory() as folder:
        for index, sample in enumerate(model.calibration):
            np.savez(Path(folder) / f"{index}.npz", **sample)
        result = Path(folder) / "quantized.onnx"
        arguments = [str(python), "-c", _NNCF, str(model.path), str(result), folder, model.kind]
        subprocess.run(arguments, check=True, capture_output=True, text=True)
        return onnx.load(result)


def by_xoptim(model: Subject, float_model: VerifiedModel, **options: Any) -> onnx.ModelProto:
    """The optimized model as ``--precision int8`` quantizes it."""
    plan = Plan(verify=VerifyPlan(checks=VerificationOptions(threads=1), whole=False))
    precision = PrecisionOptions(scheme="int8", feeds=model.calibration, **options)
    result = quantize(float_model, xoptim.OptimizationOptions(), plan, precision)
    if result.fault:
        raise SystemExit(f"{model.path.stem}: {result.fault}")
    print(f"{model.path.stem}: {result.summary()}", file=sys.stderr)
    return result.verified.proto


def quantizers(model: Subject, python: Path | None) -> dict[str, Callable[[], onnx.ModelProto]]:
    """Functions that make the models of the columns of the table, by column."""
    plan = Plan(verify=VerifyPlan(checks=VerificationOptions(threads=1), whole=False))
    float_model = optimize_verified(model.path, xoptim.OptimizationOptions(), plan)

    def by_column(*, static: bool, tolerance: float) -> onnx.ModelProto:
        return by_xoptim(model, float_model, static=static, tolerance=tolerance)

    functions: dict[str, Callable[[], onnx.ModelProto]] = {
        "float32": lambda: float_model.proto,
        "dynamic": lambda: by_column(static=False, tolerance=_TOLERANCE),
        "static": lambda: by_column(static=True, tolerance=_TOLERANCE),
        "static, all": lambda: by_column(static=True, tolerance=_MAX_TOLERANCE),
        "quantize_static": lambda: by_quantize_static(model),
    }
    if python is not None:
        functions["NNCF"] = lambda: by_nncf(model, python)
    return functions


def errors(models: Mapping[str, onnx.ModelProto], samples: Sequence[Feeds]) -> dict[str, float]:
    """The mean error of each model on samples; the first model is the reference."""
    settings = SessionSettings(("cpu",), "all", threads=1)
    results = {
        name: [Session(model, settings).run(feeds) for feeds in samples]
        for name, model in models.items()
    }
    expected = next(iter(results.values()))
    return {
        name: float(np.mean([error("rms", a, b) for a, b in zip(expected, outputs, strict=True)]))
        for name, outputs in results.items()
    }


def times(models: Mapping[str, onnx.ModelProto], feeds: Feeds, seconds: float) -> dict[str, float]:
    """The time of each model in ONNX Runtime, divided by the first one's."""
    options = BenchOptions(threads=1, seconds=seconds, feeds=feeds, compare=False, loading=False)
    report = bench(dict(models), options)
    return {
        entry.label: 1.0 if entry.ratio is None else entry.ratio.value for entry in report.models
    }


def times_in_openvino(
    models: Mapping[str, onnx.ModelProto], feeds: Feeds, python: Path, seconds: float
) -> dict[str, float]:
    """The time of each model in OpenVINO, divided by the first one's."""
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "feeds.npz", **feeds)
        for name, model in models.items():
            onnx.save(model, Path(folder) / f"{name}.onnx")
        arguments = [str(python), "-c", _OPENVINO, folder, str(seconds), *models]
        done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    answer = json.loads(done.stdout.splitlines()[-1])
    for name, reason in answer["failed"].items():
        print(f"{name} in OpenVINO: {reason}", file=sys.stderr)
    ratios: dict[str, float] = answer["ratios"]
    return ratios


def figures(model: Subject, python: Path | None, seconds: float) -> dict[str, dict[str, float]]:
    """The figures of the quantizers, by measure and quantizer.

    A quantizer that fails has no figure; the reason is printed.
    """
    models = {"original": onnx.load(model.path)}
    for name, make in quantizers(model, python).items():
        try:
            models[name] = make()
        except Exception as reason:  # other packages raise any exception
            print(f"{model.path.stem}: {name}: {reason}", file=sys.stderr)
    size, feeds = models["original"].ByteSize(), model.calibration[0]
    return {
        "error": errors(models, model.held_out),
        "size": {name: result.ByteSize() / size for name, result in models.items()},
        "ONNX Runtime": times(models, feeds, seconds),
        "OpenVINO": times_in_openvino(models, feeds, python, seconds) if python else {},
    }


def table(models: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Table:
    """The figures of all models, a row for each measure and model, and geometric means."""
    lines: list[list[str]] = []
    for measure in MEASURES:
        form = ".1%" if measure == "error" else ".2f"
        for name, measures in models.items():
            lines.append([measure, name, *_texts(measures[measure], form)])
        lines.append([measure, "geometric mean", *_texts(_means(models, measure), form)])
    return Table(("measure", "model", *QUANTIZERS), lines)


def _texts(figures: Mapping[str, float], form: str) -> list[str]:
    return [format(figures[name], form) if name in figures else "" for name in QUANTIZERS]


def _means(
    models: Mapping[str, Mapping[str, Mapping[str, float]]], measure: str
) -> dict[str, float]:
    """The geometric mean of each quantizer that has a figure for every model."""
    rows = [measures[measure] for measures in models.values()]
    return {
        name: geometric_mean(max(row[name], _MIN_ERROR) for row in rows)
        for name in QUANTIZERS
        if all(name in row for row in rows)
    }


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--only", default=MODELS, help="Regular expression for names of models.")
@click.option(
    "--nncf",
    "python",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The Python of an environment with nncf, onnx and openvino.",
)
@click.option("--seconds", default=2.0, help="Time of measured runs for each model and runtime.")
@click.option("--write", is_flag=True, help="Write the table of docs/quantization.md.")
def main(folder: Path, only: str, python: Path | None, seconds: float, write: bool) -> None:
    """Print a row for each model and quantizer."""
    models: dict[str, dict[str, dict[str, float]]] = {}
    for path in sorted(folder.rglob("*.onnx")):
        if re.search(only, path.stem):
            name = path.stem.removesuffix(".script").partition(".")[2]
            models[name] = figures(subject_of(path), python, seconds)
            print(table(models).markdown(), flush=True)
    if write:
        tables = read(PAGE) if PAGE.with_suffix(".toml").exists() else {}
        keep(PAGE, {**tables, TABLE: table(models)})
        print(f"{processor()}.")


if __name__ == "__main__":
    main()
