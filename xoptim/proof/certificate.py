"""Certificates: the proved rewrites of an optimization, in a file that anybody can check again."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import onnx

from xoptim.facts.errors import XoptimError
from xoptim.facts.json_results import JsonForm, JsonResult, member
from xoptim.graph.atomic_write import replace_file
from xoptim.graph.data_file import external_locations
from xoptim.graph.load import parse_proto
from xoptim.graph.sources import Source
from xoptim.proof.grades import GRADES, Grade
from xoptim.system.reading import open_file, read_file

FORMAT: Final = 1
"""The version of the format."""
_MAX_BYTES: Final = 1 << 30
"""Bytes of the largest certificate that is read."""
MAX_OBLIGATIONS: Final = 10_000
"""Maximal number of rewrites: the tolerances of folded constants add up."""
_PART: Final = 1 << 24
"""Bytes of a file that are hashed at once."""


class CertificateError(XoptimError):
    """A certificate cannot be read, or it belongs to other models."""


def _text_of(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


@dataclass(frozen=True, slots=True)
class Obligation(JsonResult):
    """A rewrite whose two sides have to compute the same.

    Attributes:
        number: number of the rewrite in the run, counted from 1.
        pattern: name of the pattern.
        grade: the grade that its proof had.
        premises: what the proof assumed.
        before: the matched nodes, a serialized model.
        after: their replacement, a serialized model with the same inputs and outputs.
    """

    __json__ = JsonForm(
        "number pattern grade premises", member("before", _text_of), member("after", _text_of)
    )
    number: int
    pattern: str
    grade: Grade
    premises: Sequence[str]
    before: bytes
    after: bytes

    def models(self) -> tuple[onnx.ModelProto, onnx.ModelProto]:
        """Both sides; raises `ModelError` where they cannot be read."""
        name = f"certificate: rewrite {self.number}"
        return parse_proto(self.before, f"{name} is"), parse_proto(self.after, f"{name} is")


@dataclass(frozen=True, slots=True)
class Certificate(JsonResult):
    """The rewrites that lead from a model to another one.

    Attributes:
        original: SHA-256 of the original model, see `fingerprint`.
        result: SHA-256 of the optimized model, see `fingerprint`.
        assumptions: the assumptions of the optimization, in addition to the default set.
        obligations: the rewrites in order.
        format: version of the format.
        versions: versions of the packages that made the certificate.
    """

    original: str
    result: str
    assumptions: Sequence[str]
    obligations: Sequence[Obligation]
    format: int = FORMAT
    versions: Mapping[str, str] = field(
        default_factory=lambda: {name: version(name) for name in ("xoptim", "onnx")}
    )

    def write(self, path: Path) -> None:
        """Write the file; raises `ModelError` when it cannot be written."""
        replace_file(path, json.dumps(self.to_json(), indent=1).encode())

    @classmethod
    def read(cls, path: Path) -> Certificate:
        """Read a file; raises `CertificateError` where it is not a certificate of this version."""
        try:
            document = json.loads(read_file(path, _MAX_BYTES))
        except OSError as error:
            raise CertificateError(
                f"cannot read {str(path)!r}: {error.strerror or error}"
            ) from error
        except (ValueError, RecursionError) as error:
            raise CertificateError(f"{str(path)!r} is not a certificate: it is not JSON") from error
        if not isinstance(document, dict) or "format" not in document:
            raise CertificateError(f"{str(path)!r} is not a certificate: it has no format")
        if document["format"] != FORMAT:
            raise CertificateError(
                f"{str(path)!r} has format {str(document['format'])[:20]!r}; this xoptim reads "
                f"format {FORMAT}"
            )
        try:
            return _certificate(document)
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise CertificateError(f"{str(path)!r} is damaged: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    text = str(error)[:100]
    return f"{text} is missing" if isinstance(error, KeyError) else text


def _certificate(document: Mapping[str, Any]) -> Certificate:
    entries = _typed(document, "obligations", list)
    if len(entries) > MAX_OBLIGATIONS:
        raise ValueError(f"more than {MAX_OBLIGATIONS} rewrites")
    return Certificate(
        original=_typed(document, "original", str),
        result=_typed(document, "result", str),
        assumptions=_texts(document, "assumptions"),
        obligations=[_obligation(entry) for entry in entries],
        versions={str(k): str(v) for k, v in _typed(document, "versions", dict).items()},
    )


def _obligation(entry: Any) -> Obligation:
    if not isinstance(entry, dict):
        raise TypeError("a rewrite is not an object")
    grade = _typed(entry, "grade", str)
    if grade not in GRADES:
        raise ValueError(f"{grade[:50]!r} is not a grade")
    sides = (base64.b64decode(_typed(entry, name, str), validate=True) for name in _SIDES)
    return Obligation(
        _typed(entry, "number", int),
        _typed(entry, "pattern", str),
        next(item for item in GRADES if item == grade),
        _texts(entry, "premises"),
        *sides,
    )


_SIDES: Final = ("before", "after")


def _typed(document: Mapping[str, Any], name: str, kind: type) -> Any:
    value = document[name]
    if not isinstance(value, kind):
        raise TypeError(f"{name} is not {_KINDS[kind]}")
    return value


_KINDS: Final = {list: "a list", dict: "an object", str: "a string", int: "a number"}


def _texts(document: Mapping[str, Any], name: str) -> list[str]:
    values = _typed(document, name, list)
    if not all(isinstance(value, str) for value in values):
        raise TypeError(f"{name} is not a list of strings")
    return list(values)


def fingerprint(path: Path) -> str:
    """SHA-256 of a model file, in hexadecimal.

    With external data: SHA-256 of the digests of the model file and of its weight files, in the
    order of the locations that the model states.

    Raises:
        ModelError: when the model cannot be read.
        CertificateError: when a file cannot be read for its digest.
    """
    source = Source(path)
    locations = external_locations(source.proto)
    model_digest = _digest_of(path)
    if not locations:
        return model_digest
    digests = [model_digest, *(_digest_of(path.parent / name) for name in locations)]
    return sha256("".join(digests).encode()).hexdigest()


def _digest_of(path: Path) -> str:
    digest = sha256()
    for part in _parts(path):
        digest.update(part)
    return digest.hexdigest()


def _parts(path: Path) -> Iterator[bytes]:
    try:
        with open_file(path) as stream:
            while part := stream.read(_PART):
                yield part
    except OSError as error:
        raise CertificateError(f"cannot read {str(path)!r}: {error.strerror or error}") from error
