"""Models on which something once failed, kept as the files that ONNX keeps test data in."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from tests.properties.growing import Drawn
from xoptim.testing.variant import serialized

FOLDER = Path(__file__).parent / "regressions"
_KEY = "rounding"


def save(drawn: Drawn, fault: str, folder: Path = FOLDER) -> Path:
    """Write a graph that failed with its feeds; returns where."""
    model = onnx.ModelProto()
    model.CopyFrom(drawn.model)
    model.doc_string = fault.splitlines()[0][:300] if fault else ""
    onnx.helper.set_model_props(model, {_KEY: json.dumps(None if drawn.measured else drawn.errors)})
    path = folder / hashlib.sha256(serialized(drawn.model)).hexdigest()[:12]
    path.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path / "model.onnx")
    for number, feeds in enumerate(drawn.feeds):
        data = path / f"test_data_set_{number}"
        data.mkdir(exist_ok=True)
        for position, (name, value) in enumerate(feeds.items()):
            tensor = numpy_helper.from_array(np.asarray(value), name)
            (data / f"input_{position}.pb").write_bytes(tensor.SerializeToString())
    return path


def load(path: Path) -> Drawn:
    """Read what `save` wrote."""
    model = onnx.load(path / "model.onnx")
    errors: dict[str, float] | None = next(
        (json.loads(entry.value) for entry in model.metadata_props if entry.key == _KEY), {}
    )
    runs = [dict(_tensors(data)) for data in sorted(path.glob("test_data_set_*"))]
    return Drawn(model, tuple(runs), errors or {}, measured=errors is None)


def _tensors(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    for path in sorted(folder.glob("input_*.pb")):
        tensor = onnx.TensorProto.FromString(path.read_bytes())
        yield tensor.name, numpy_helper.to_array(tensor)


def saved() -> list[Path]:
    """The folders of all of them."""
    return sorted(path.parent for path in FOLDER.glob("*/model.onnx"))
