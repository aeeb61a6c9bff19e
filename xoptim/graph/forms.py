"""The forms of a model in a file: a protobuf, or one of the text forms of ONNX; and files that are
often taken for a model.
"""

import re
from typing import Final, Literal, TypeAlias

import onnx
from google.protobuf import json_format, text_format
from google.protobuf.message import DecodeError

from xoptim.facts.errors import ModelError
from xoptim.facts.nesting import is_too_deep

TextForm: TypeAlias = Literal["text", "textproto", "json"]
"""The syntax of `onnx.parser`; text of protobuf; JSON."""

BEGINNING: Final = 4096
"""Number of bytes at the beginning of a file that decide its form."""

_COMMENTS: Final = rb"\s*(?:#[^\n]*\n\s*)*"
_FIELDS: Final = (
    rb"(?:ir_version|opset_import|producer_name|producer_version|domain|model_version"
    rb"|doc_string|graph)"
)
_FORMS: Final[tuple[tuple[TextForm, re.Pattern[bytes]], ...]] = (
    (
        "text",
        re.compile(
            _COMMENTS
            + rb"<\s*(?:ir_version|opset_import|producer_name|domain|model_version|doc_string)\s*:"
        ),
    ),
    ("textproto", re.compile(_COMMENTS + _FIELDS + rb"\s*[:{]")),
    ("json", re.compile(rb'\s*\{\s*"[A-Za-z_]+"\s*:')),
)
_MAGIC: Final = (
    (
        re.compile(rb"\s*<(?:!doctype\s+html|html)", re.IGNORECASE),
        "it is an HTML page, which a failed download may leave",
    ),
    (
        re.compile(rb"version https://git-lfs"),
        "it is a pointer of Git LFS; `git lfs pull` fetches the file",
    ),
    (re.compile(rb"\x1f\x8b"), "it is compressed with gzip; unpack it first"),
    (re.compile(rb"BZh|\xfd7zXZ|\x28\xb5\x2f\xfd"), "it is compressed; unpack it first"),
    (
        re.compile(rb"PK\x03\x04[\s\S]*data\.pkl"),
        "it is a model of PyTorch; torch.onnx.export makes an ONNX model of it",
    ),
    (
        re.compile(rb"\x80[\x02-\x05]"),
        "it is a pickle, as PyTorch writes them; torch.onnx.export makes an ONNX model",
    ),
    (re.compile(rb"PK\x03\x04"), "it is a zip archive; unpack it first"),
    (re.compile(rb"[\s\S]{4}TFL3"), "it is a model of TensorFlow Lite; tf2onnx converts it"),
    (
        re.compile(rb"[\s\S]{4}ORTM"),
        "it is a model in onnxruntime's own format; give the ONNX model it was made from",
    ),
    (
        re.compile(rb"\x89HDF\r\n"),
        "it is an HDF5 file, such as a model of Keras; tf2onnx converts it",
    ),
    (re.compile(rb"GGUF"), "it is a GGUF file, which holds weights and no graph"),
    (re.compile(rb"\x93NUMPY"), "it is an array of numpy"),
    (re.compile(rb"<\?xml"), "it is an XML file"),
    (
        re.compile(rb"[\s\S]{4}\x00{4}\{"),
        "it is a file of safetensors, which holds weights and no graph",
    ),
)


def text_form(raw: bytes) -> TextForm | None:
    """The text form of a model by the beginning of its file, ``None`` for anything else.

    Text in the syntax of `onnx.parser` begins with ``<ir_version: ...``, a textproto with the name
    of a field, JSON with ``{``.
    """
    start = raw[:BEGINNING].removeprefix(b"\xef\xbb\xbf")
    return next((form for form, pattern in _FORMS if pattern.match(start)), None)


def parse_text(raw: bytes, form: TextForm, label: str) -> onnx.ModelProto:
    """A model from one of the text forms.

    ``label`` begins the message of the `ModelError` when it is not one: ``'a.onnx' is``.
    """
    try:
        text = raw.decode("utf-8-sig")
        if form == "text":
            return _parsed(text, label)
        if form == "textproto":
            return text_format.Parse(text, onnx.ModelProto())
        return json_format.Parse(text, onnx.ModelProto())
    except (
        *(
            UnicodeDecodeError,
            onnx.parser.ParseError,
            text_format.ParseError,
            json_format.ParseError,
        ),
        *(DecodeError, RecursionError, ValueError, RuntimeError),
    ) as error:
        message = (
            error.args[0]
            if error.args and isinstance(error.args[0], bytes)
            else str(error).encode()
        )
        reason = " ".join(message.decode(errors="replace").split())
        raise ModelError(
            f"{label} not an ONNX model: parsed as {_WORDS[form]}, it fails with: {reason[:300]}"
        ) from error


def _parsed(text: str, label: str) -> onnx.ModelProto:
    if is_too_deep(text):
        raise ModelError(
            f"{label} nested too deeply: a protobuf is read to a depth of 100 messages"
        )
    try:
        return onnx.parser.parse_model(text)
    except IndexError:  # the parser reports C++'s "out of range" in this way
        raise ModelError(
            f"{label} not an ONNX model: parsed as {_WORDS['text']}, a number in it is too large"
        ) from None


_WORDS: Final[dict[TextForm, str]] = {
    "text": "ONNX text",
    "textproto": "a protobuf in text form",
    "json": "JSON",
}


def kind_of(raw: bytes) -> str:
    """The kind of a file that is not a model, and how to get a model from it; empty if unknown."""
    if not raw:
        return "it is empty"
    start = raw[:BEGINNING]
    return next((text for pattern, text in _MAGIC if pattern.match(start)), "")
