"""Write models to measure: small ones of many architectures with random weights, as torch's two
exporters and others write them.

    pip install torch==2.13.0 transformers onnxscript scikit-learn skl2onnx
    python -m benchmarks.zoo FOLDER                  # all of them, about 10 minutes
    python -m benchmarks.zoo FOLDER --only "bert|vit"

Each model is written as ``FAMILY.NAME.EXPORTER.onnx``, next to ``FAMILY.NAME.EXPORTER.npz`` with
the input values of its measurements; `benchmarks.performance` reads such a folder. A model that
cannot be exported with the installed versions is reported and skipped. The graphs are those of the
real architectures, with fewer and smaller layers. As the weights are random, the outputs mean
nothing.
"""

import argparse
import pathlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import signature
from itertools import pairwise
from typing import Any, Final

import numpy as np
import onnx
from onnx import numpy_helper

from benchmarks.decoder_models import causal
from benchmarks.tools import read_toml

Values = dict[str, Any]
"""Tensors of torch by the names of the inputs."""
OPEN: Final[dict[str, dict[str, dict[int, str]]]] = {
    "text": {name: {0: "batch", 1: "seq"} for name in ("input_ids", "attention_mask")},
    "tokens": {"input_ids": {0: "batch"}},
    "image": {"pixel_values": {0: "batch"}},
    "sound": {"input_features": {0: "batch"}},
}
"""Dynamic dimensions of the inputs, by kind of the inputs."""


@dataclass(frozen=True)
class Architecture:
    """A model of transformers.

    Attributes:
        family: name of the architectures that are reported together.
        model: class of the model in transformers.
        settings: settings of its configuration.
        inputs: kind of the inputs, a key of `OPEN`.
        edge: height and width of the images.
        has_attention: whether transformers has several implementations of its attention.
        generates: whether the model generates text, token by token.
    """

    family: str
    model: str
    settings: Mapping[str, Any]
    inputs: str = "text"
    edge: int = 112
    has_attention: bool = True
    generates: bool = False


ARCHITECTURES = {name: Architecture(**entry) for name, entry in read_toml("zoo").items()}
"""The models of transformers, by name."""


EXPORTED = {"text": (2, 24), "tokens": (2, 16), "image": (2, 0), "sound": (2, 300)}
"""Batch size and length of the inputs for the export, by kind of the inputs."""
MEASURED = {"text": (1, 64), "tokens": (1, 16), "image": (1, 0), "sound": (1, 300)}
"""Batch size and length of the inputs for measurements, by kind of the inputs."""


def values_of(architecture: Architecture, sizes: tuple[int, int]) -> Values:
    """Random inputs of a model; the last two tokens of the first text are padding."""
    import torch

    torch.manual_seed(0)
    kind, (batch, length) = architecture.inputs, sizes
    if kind == "image":
        return {"pixel_values": torch.randn(batch, 3, architecture.edge, architecture.edge)}
    if kind == "sound":
        return {"input_features": torch.randn(batch, 80, length)}
    values = {"input_ids": torch.randint(3, 1000, (batch, length))}
    if kind == "text":
        values["attention_mask"] = torch.ones(batch, length, dtype=torch.int64)
        values["attention_mask"][0, -2:] = 0
    return values


def module_of(architecture: Architecture, exporter: str) -> Any:
    """A module whose ``forward`` takes the inputs by position and returns the first output of the
    model.
    """
    import torch
    import transformers

    torch.manual_seed(0)
    attention = (
        {"attn_implementation": "sdpa" if exporter == "dynamo" else "eager"}
        if architecture.has_attention
        else {}
    )
    model_class = getattr(transformers, architecture.model)
    config = model_class.config_class(**architecture.settings, **attention)
    model = model_class(config).eval()
    model = model.encoder if architecture.inputs == "sound" else model
    names, options = (
        list(OPEN[architecture.inputs]),
        {"use_cache": False} if architecture.generates else {},
    )

    class First(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *values: Any) -> Any:
            inputs = dict(zip(names, values, strict=True))
            if "attention_mask" in inputs and architecture.generates and exporter == "script":
                inputs["attention_mask"] = causal(inputs["attention_mask"])
            return self.model(**inputs, **options)[0]

    return First().eval()


def _export(
    module: Any,
    export_values: Values,
    measured_values: Values,
    dims: Mapping[str, Mapping[int, str]],
    path: pathlib.Path,
) -> None:
    """Export a module with torch, and write its input values next to it.

    A path that ends in ``.dynamo.onnx`` selects dynamo without its own optimizations, any other one
    tracing.
    """
    import torch

    args, names = tuple(export_values.values()), list(export_values)
    try:
        if path.stem.endswith(".dynamo"):
            dynamic = torch.export.Dim.DYNAMIC
            shapes = tuple(dict.fromkeys(dims[name], dynamic) for name in names)
            variadic = any(
                parameter.kind is parameter.VAR_POSITIONAL
                for parameter in signature(module.forward).parameters.values()
            )
            options: dict[str, Any] = {
                "input_names": names,
                "dynamic_shapes": (shapes,) if variadic else shapes,
            }
            program = torch.onnx.export(
                module, args, dynamo=True, optimize=False, verbose=False, **options
            )
            program.save(str(path), external_data=False)
        else:
            options = {
                "input_names": names,
                "dynamic_axes": {name: dict(dims[name]) for name in names},
            }
            torch.onnx.export(module, args, str(path), dynamo=False, opset_version=17, **options)
    except Exception as error:  # exporters fail in any way
        print(
            f"{path.name}: not written: {type(error).__name__}: "
            f"{str(error).partition(chr(10))[0][:200]}",
            flush=True,
        )
    else:
        _keep_values(path, measured_values)


def export_both(folder: pathlib.Path, name: str, architecture: Architecture) -> None:
    """Export a model of transformers by both exporters."""
    kind, dims = architecture.inputs, OPEN[architecture.inputs]
    for exporter in ("dynamo", "script"):
        module = module_of(architecture, exporter)
        path = folder / f"{architecture.family}.{name}.{exporter}.onnx"
        _export(
            module,
            values_of(architecture, EXPORTED[kind]),
            values_of(architecture, MEASURED[kind]),
            dims,
            path,
        )


def _keep_values(path: pathlib.Path, values: Values) -> None:
    arrays: dict[str, Any] = {name: np.asarray(value) for name, value in values.items()}
    np.savez(path.with_suffix(".npz"), **arrays)


def recurrent(folder: pathlib.Path) -> None:
    """Export two bidirectional LSTM layers between an embedding and a classifier."""
    import torch

    class Tagger(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(500, 64)
            self.lstm = torch.nn.LSTM(64, 96, num_layers=2, bidirectional=True, batch_first=True)
            self.norm, self.classes = torch.nn.LayerNorm(192), torch.nn.Linear(192, 50)

        def forward(self, tokens: Any) -> Any:
            return torch.log_softmax(
                self.classes(self.norm(self.lstm(self.embedding(tokens))[0])), -1
            )

    _export_module(
        folder,
        "scan.lstm",
        Tagger(),
        lambda batch, seq: {"tokens": torch.randint(0, 500, (batch, seq))},
    )


def perceptron(folder: pathlib.Path) -> None:
    """Export a perceptron: linear layers with batch normalizations."""
    import torch

    layers = [
        layer
        for start, end in pairwise((64, 256, 256, 128))
        for layer in (
            torch.nn.Linear(start, end),
            torch.nn.BatchNorm1d(end),
            torch.nn.ReLU(),
            torch.nn.Dropout(0.1),
        )
    ]
    module = torch.nn.Sequential(*layers, torch.nn.Linear(128, 10), torch.nn.Softmax(-1))
    _export_module(
        folder, "other.mlp", module, lambda batch, seq: {"input": torch.randn(8 * batch, 64)}
    )


def mixture(folder: pathlib.Path) -> None:
    """Export mixture-of-experts layers: all eight experts are computed for all tokens, and a gate
    weights the best two.
    """
    import torch

    class Layer(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.gate = torch.nn.LayerNorm(128), torch.nn.Linear(128, 8, bias=False)
            self.up = torch.nn.Parameter(torch.randn(8, 128, 256) * 128**-0.5)
            self.down = torch.nn.Parameter(torch.randn(8, 256, 128) * 256**-0.5)

        def forward(self, x: Any) -> Any:
            y = self.norm(x)
            shares = torch.softmax(self.gate(y), -1)
            top_shares, indices = torch.topk(shares, 2, dim=-1)
            weights = torch.zeros_like(shares).scatter(
                -1, indices, top_shares / top_shares.sum(-1, keepdim=True)
            )
            experts = torch.nn.functional.silu(torch.einsum("bsd,edh->bseh", y, self.up))
            return x + torch.einsum(
                "bsed,bse->bsd", torch.einsum("bseh,ehd->bsed", experts, self.down), weights
            )

    layers = torch.nn.Sequential(Layer(), Layer(), Layer())
    _export_module(
        folder, "other.mixture", layers, lambda batch, seq: {"input": torch.randn(batch, seq, 128)}
    )


def _export_module(
    folder: pathlib.Path, name: str, module: Any, values: Callable[[int, int], Values]
) -> None:
    """Export a module of one input by both exporters.

    The batch is a dynamic dimension, and so is the length of an input that has three dimensions or
    holds tokens.
    """
    import torch

    torch.manual_seed(0)
    export_values, measured_values = values(2, 24), values(1, 64)
    (key, value), *_ = export_values.items()
    has_length = value.dim() == 3 or not value.is_floating_point()
    dims = {key: {0: "batch", 1: "seq"} if has_length else {0: "batch"}}
    for exporter in ("dynamo", "script"):
        path = folder / f"{name}.{exporter}.onnx"
        _export(module.eval(), export_values, measured_values, dims, path)


LONG = ("light_vgg19", "light_zfnet512")
"""CNNs that are skipped: they have hundreds of megabytes, and spend most time in two matrix
multiplications.
"""


def light(folder: pathlib.Path) -> None:
    """Write the CNNs of the onnx package with random weights; in the package, all weights are
    ConstantOfShape nodes.
    """
    data = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    for source in sorted(data.glob("light_*.onnx")):
        if source.stem in LONG:
            continue
        model = onnx.load(source)
        rng = np.random.default_rng(0)
        sizes = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        weight_nodes = [
            node
            for node in model.graph.node
            if node.op_type == "ConstantOfShape" and node.input[0] in sizes
        ]
        variances = {
            node.input[4] for node in model.graph.node if node.op_type == "BatchNormalization"
        }
        for node in weight_nodes:
            shape = [int(size) for size in sizes[node.input[0]]]
            values = rng.standard_normal(shape) * (2 / max(1, int(np.prod(shape[1:])))) ** 0.5
            values = np.abs(values) + 0.5 if node.output[0] in variances else values
            model.graph.initializer.append(
                numpy_helper.from_array(values.astype(np.float32), node.output[0])
            )
            model.graph.node.remove(node)
        image = next(value for value in model.graph.input if value.name not in sizes)
        shape = [dim.dim_value for dim in image.type.tensor_type.shape.dim]
        del model.graph.input[:]
        model.graph.input.append(image)
        model.ir_version = max(model.ir_version, 4)
        path = folder / f"cnn.{source.stem.removeprefix('light_')}.caffe2.onnx"
        onnx.save(model, path)
        _keep_values(path, {image.name: rng.standard_normal(shape).astype(np.float32)})


def forest(folder: pathlib.Path) -> None:
    """Convert a scaler followed by a random forest."""
    from skl2onnx import to_onnx
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = np.random.default_rng(0).standard_normal((600, 12)).astype(np.float32)
    labels = (x[:, :3].sum(axis=1) > 0).astype(np.int64) + (x[:, 3] > 0.5)
    trained = make_pipeline(
        StandardScaler(), RandomForestClassifier(40, max_depth=8, random_state=0)
    ).fit(x, labels)
    path = folder / "other.forest.sklearn.onnx"
    model = to_onnx(trained, x[:1], options={"zipmap": False})
    onnx.save(model, path)
    _keep_values(path, {model.graph.input[0].name: x[:50]})


def quantized(folder: pathlib.Path) -> None:
    """Quantize the exported ResNet to int8 in QDQ format: QuantizeLinear and DequantizeLinear."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    source = folder / "cnn.resnet.script.onnx"
    values = dict(np.load(source.with_suffix(".npz")))

    class Once(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.samples = [values]

        def get_next(self) -> dict[str, np.ndarray] | None:
            return self.samples.pop() if self.samples else None

    path = folder / "cnn.resnet_8bit.quantized.onnx"
    prepared = path.with_suffix(".prepared")
    quant_pre_process(str(source), str(prepared), skip_optimization=True, skip_symbolic_shape=True)
    quantize_static(
        str(prepared), str(path), Once(), quant_format=QuantFormat.QDQ, per_channel=True
    )
    prepared.unlink()
    _keep_values(path, values)


MAKERS: dict[str, Callable[[pathlib.Path], None]] = {
    **{
        name: partial(export_both, name=name, architecture=architecture)
        for name, architecture in ARCHITECTURES.items()
    },
    "lstm": recurrent,
    "mlp": perceptron,
    "mixture": mixture,
    "light": light,
    "forest": forest,
    "resnet_8bit": quantized,
}


def main() -> None:
    """Write the models."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="", help="regular expression for names")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, make in MAKERS.items():
        if re.search(options.only, name):
            try:
                make(options.folder)
            except Exception as error:  # exporters of other packages fail in any way
                print(
                    f"{name}: not written: {type(error).__name__}: "
                    f"{str(error).partition(chr(10))[0][:200]}",
                    flush=True,
                )
            else:
                print(name, flush=True)


if __name__ == "__main__":
    main()
