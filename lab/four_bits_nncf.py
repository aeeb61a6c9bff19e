"""int4 weights by NNCF, which runs in an environment of its own.

NNCF 3.4 has no GPTQ for ONNX models: "ONNX backend does not support gptq option(s). Set them to
None." For GPTQ, the model is therefore converted to OpenVINO. That backend supports only MatMuls
with ``transpose_b``, and raises "Transpose is not supported" for others, so all are rewritten to
that form. OpenVINO then computes in float32.
"""

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import onnx

from lab.four_bits_wheels import Feeds
from xoptim.verification.runs.session import Value

_COMMON: Final = """
import json, sys
from pathlib import Path
import nncf, numpy

def read(folder):
    return [dict(numpy.load(path)) for path in sorted(Path(folder).glob("*.npz"))]

OTHERS = ["Gather", "Conv", "ConvTranspose", "Convolution", "ConvolutionBackpropData"]

def compressed(model, samples, options):
    return nncf.compress_weights(
        model,
        mode=nncf.CompressWeightsMode.INT4_ASYM,
        group_size=32,
        ratio=1.0,
        all_layers=True,
        ignored_scope=nncf.IgnoredScope(types=OTHERS, validate=False),
        dataset=nncf.Dataset(samples),
        subset_size=len(samples),
        **options,
    )

folder, options = Path(sys.argv[1]), json.loads(sys.argv[2])
samples = read(folder / "calibration")
"""
_ONNX: Final = f"""{_COMMON}
import onnx
onnx.save(compressed(onnx.load(folder / "model.onnx"), samples, options), folder / "made.onnx")
"""
_OPENVINO: Final = f"""{_COMMON}
import openvino
from openvino import opset13
model = openvino.Core().read_model(folder / "model.onnx")
for node in model.get_ops():
    if node.get_type_name() != "MatMul" or node.get_attributes()["transpose_b"]:
        continue
    weights = node.input_value(1).get_node()
    if weights.get_type_name() == "Constant" and len(weights.shape) == 2:
        transposed = opset13.constant(numpy.ascontiguousarray(weights.data.T))
        is_transposed = node.get_attributes()["transpose_a"]
        matmul = opset13.matmul(node.input_value(0), transposed, is_transposed, True)
        matmul.set_friendly_name(node.get_friendly_name())
        node.output(0).replace(matmul.output(0))
made = compressed(model, samples, options)
settings = {{"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}}
compiled = openvino.Core().compile_model(made, "CPU", settings)
results = {{}}
for index, sample in enumerate(read(folder / "held_out")):
    values = compiled(sample)
    for output in range(len(compiled.outputs)):
        results[f"{{index}} {{output}}"] = values[output]
numpy.savez(folder / "results.npz", **results)
openvino.save_model(made, folder / "made.xml", compress_to_fp16=False)
"""


class Made(NamedTuple):
    """The outputs of a quantized model.

    Attributes:
        outputs: the outputs for each held-out sample.
        size: bytes of the model.
    """

    outputs: Sequence[Sequence[Value]]
    size: int


def by_nncf(
    python: Path, model: onnx.ModelProto, samples: Sequence[Feeds], **options: bool
) -> onnx.ModelProto:
    """The model with weights that NNCF has compressed.

    Args:
        python: the Python of an environment with nncf and onnx.
        model: the model.
        samples: samples for calibration.
        options: options of ``nncf.compress_weights``.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _run(python, _ONNX, folder, model, {"calibration": samples}, options)
        return onnx.load(folder / "made.onnx")


def by_openvino(
    python: Path,
    model: onnx.ModelProto,
    samples: Sequence[Feeds],
    held_out: Sequence[Feeds],
    **options: bool,
) -> Made:
    """The outputs of the model with weights that NNCF has compressed for OpenVINO.

    Args:
        python: the Python of an environment with nncf and openvino.
        model: the model.
        samples: samples for calibration.
        held_out: samples on which the compressed model runs.
        options: options of ``nncf.compress_weights``.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        feeds = {"calibration": samples, "held_out": held_out}
        _run(python, _OPENVINO, folder, model, feeds, options)
        results = np.load(folder / "results.npz")
        outputs: list[list[Value]] = [
            [results[f"{index} {output}"] for output in range(len(model.graph.output))]
            for index in range(len(held_out))
        ]
        return Made(outputs, (folder / "made.bin").stat().st_size)


def _run(
    python: Path,
    script: str,
    folder: Path,
    model: onnx.ModelProto,
    feeds: Mapping[str, Sequence[Feeds]],
    options: Mapping[str, bool],
) -> None:
    """Write a model and samples into a folder, and run a script there.

    Raises:
        RuntimeError: the script failed; the message is its last line.
    """
    onnx.save(model, folder / "model.onnx")
    for name, samples in feeds.items():
        (folder / name).mkdir()
        for index, sample in enumerate(samples):
            values: dict[str, np.ndarray] = {**sample}
            np.savez(folder / name / f"{index:03}.npz", **values)  # type: ignore[arg-type]
    arguments = [str(python), "-c", script, str(folder), json.dumps(options)]
    done = subprocess.run(arguments, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
