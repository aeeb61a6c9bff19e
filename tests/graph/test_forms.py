"""The forms of a model in a file, and files that are taken for a model."""

import gzip
import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import xoptim
from tests.support import parse, types
from xoptim.graph.forms import kind_of, text_form

TEXT = (
    '<ir_version: 9, opset_import: ["" : 18]>\nagraph (float[n] x) => (float[n] y) { t = Neg(x) y ='
    " Neg(t) }"
)


def archive(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name in names:
            # of a fixed date: the bytes are names of tests
            file.writestr(zipfile.ZipInfo(name), b"content")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"\n<!DOCTYPE html>\n<html></html>", "it is an HTML page"),
        (b"<HTML><body>404</body></HTML>", "it is an HTML page"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
            "`git lfs pull` fetches the file",
        ),
        (gzip.compress(b"model", mtime=0), "it is compressed with gzip"),
        (
            archive("archive/data.pkl", "archive/version"),
            "it is a model of PyTorch; torch.onnx.export",
        ),
        (pickle.dumps({"weight": 1}, protocol=2), "it is a pickle"),
        (archive("saved_model.pb"), "it is a zip archive; unpack it first"),
        (
            b"\x1c\x00\x00\x00TFL3" + bytes(20),
            "it is a model of TensorFlow Lite; tf2onnx converts it",
        ),
        (b"\x1c\x00\x00\x00ORTM" + bytes(20), "it is a model in onnxruntime's own format"),
        (b'\x40\x00\x00\x00\x00\x00\x00\x00{"w":{"dtype":"F32"}}', "it is a file of safetensors"),
        (b"GGUF\x03\x00\x00\x00", "it is a GGUF file"),
        (b"\x89HDF\r\n\x1a\n", "it is an HDF5 file"),
        (b"\x93NUMPY\x01\x00", "it is an array of numpy"),
    ],
)
def test_files_that_are_not_models(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(xoptim.ModelError, match=r"model\.onnx' is not an ONNX model: ") as error:
        xoptim.optimize(path)
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


def test_protobufs_have_no_other_form() -> None:
    raw = parse("agraph (float[n] x) => (float[n] y) { y = Neg(x) }").SerializeToString()
    assert (text_form(raw), kind_of(raw)) == (None, "")


@pytest.mark.parametrize("suffix", ["onnxtxt", "textproto", "json"])
def test_text_forms_are_read(tmp_path: Path, suffix: str) -> None:
    """Under any name; the verification reads them too, with weights in a file of their own."""
    model = onnx.parser.parse_model(TEXT)
    path = tmp_path / f"named.{suffix}"
    if suffix == "onnxtxt":
        path.write_text(TEXT)
    else:
        model.graph.node[1].input.append("w")
        model.graph.node[0].op_type, model.graph.node[1].op_type = "Relu", "Add"
        model.graph.initializer.append(numpy_helper.from_array(np.ones(1, np.float32), "w"))
        onnx.external_data_helper.convert_model_to_external_data(
            model, location="w.data", size_threshold=0
        )
        onnx.external_data_helper.write_external_data_tensors(model, str(tmp_path))
        onnx.save(model, path, suffix)
    plain = tmp_path / "model.onnx"
    plain.write_bytes(path.read_bytes())
    for each in (path, plain):
        after = xoptim.optimize(each, verify=True, patterns="default")
        assert types(after) == (["Identity"] if suffix == "onnxtxt" else ["Relu", "Add"])
    assert xoptim.verify(plain, path).ok


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TEXT.replace("Neg(t)", "Neg(t"), "parsed as ONNX text, it fails with"),
        (
            "ir_version: 9\ngraph { node { input: 'x' op_type } }",
            "parsed as a protobuf in text form, it fails with",
        ),
        ('{"irVersion": 9, "graph": {"nodes": []}}', "parsed as JSON, it fails with"),
    ],
)
def test_mistakes_in_text_forms(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_text(text)
    with pytest.raises(xoptim.ModelError, match=reason):
        xoptim.optimize(path)
