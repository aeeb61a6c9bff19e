"""Write both sides of each rewrite as models that can run, and compare them later."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import onnx

from xoptim.diagnose.each import held_to
from xoptim.engine.events import Application, Event, for_applications
from xoptim.facts.assumptions import Assumptions
from xoptim.facts.dtypes import GRADES
from xoptim.facts.errors import ModelError, XoptimError
from xoptim.graph.assumed import fitting, note
from xoptim.graph.fragment import side_by_side
from xoptim.graph.load import read_proto
from xoptim.validate.options import ValidationOptions
from xoptim.validate.report import Status, ValidationReport
from xoptim.validate.validation import validate


def dump_to(folder: Path) -> Callable[[Event], None]:
    """A listener to events that dumps each rewrite into a folder; see `dump_application`."""
    return for_applications(partial(dump_application, folder))


def dump_application(folder: Path, application: Application) -> None:
    """Write ``NUMBER_PATTERN.before.onnx``, ``.after.onnx`` and ``.txt`` into a folder, which is created when missing.

    The models come from `xoptim.graph.fragment`. Their metadata names the pattern, its exactness, and what was assumed. Raises
    `XoptimError` when the folder cannot be written.
    """
    pattern, matched, given = application.pattern, application.matched, application.given
    if not matched:  # a rewrite of a whole model
        return
    name = pattern.name()
    models = side_by_side(application.graph, matched, given)
    exactness = held_to(pattern.exactness, models)
    for model in models:
        onnx.helper.set_model_props(model, {"xoptim.pattern": name, "xoptim.exactness": exactness})
        note(model, Assumptions.of(fitting(application.graph.model.assumptions.texts, model)[0]))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"{_next_number(folder):05d}_{name}"
        for kind, model in zip(("before", "after"), models, strict=True):
            (folder / f"{stem}.{kind}.onnx").write_bytes(model.SerializeToString())
        lines = [name, "", "matched:", *map(repr, matched), "", "replacement:", *map(repr, given)]
        (folder / f"{stem}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        _last[folder] = stem
    except OSError as error:
        raise XoptimError(f"DUMPPATTERNS: cannot write into {str(folder)!r}: {error.strerror or error}") from error


_last: dict[Path, str] = {}
"""The stem written last into each folder, so that its files are counted only once."""


def _next_number(folder: Path) -> int:
    known = _last.get(folder)
    if known is not None and (folder / f"{known}.txt").exists():
        return int(known.partition("_")[0]) + 1
    return sum(1 for _ in folder.glob("*.txt"))


_SUFFIXES = (".before.onnx", ".after.onnx", ".txt")


@dataclass(frozen=True, slots=True)
class Replayed:
    """The check of one application of a pattern, named as the files; ``damage`` says why the models cannot be read."""

    name: str
    pattern: str
    report: ValidationReport | None
    damage: str = ""

    @property
    def status(self) -> Status | Literal["damaged"]:
        """The verdict."""
        return "damaged" if self.report is None else self.report.status

    @property
    def reason(self) -> str:
        """The reason why the models are not known to be equal, in one line."""
        return self.damage if self.report is None else self.report.reason

    @property
    def largest(self) -> float | None:
        """Largest absolute difference of an output, ``None`` when nothing was compared."""
        worst = None if self.report is None else self.report.largest
        return None if worst is None else worst.max_abs

    def to_json(self) -> dict[str, Any]:
        """All fields, as JSON values."""
        report = None if self.report is None else self.report.to_json()
        return {"name": self.name, "pattern": self.pattern, "status": self.status, "reason": self.reason, "report": report}


def replay(folder: str | Path, *, providers: Sequence[str] = ("cpu",), custom_op_libs: Sequence[str] = ()) -> list[Replayed]:
    """Run the models that were dumped before and after each application of a pattern, and compare the results.

    The tolerance follows from the exactness of the pattern, which is written in the dump. Returns one entry for each
    application, in order. Raises `XoptimError` when the folder cannot be read, or contains no dump.

    Args:
        folder: the folder that the environment variable ``DUMPPATTERNS`` named.
        providers: execution providers of onnxruntime to run them on.
        custom_op_libs: libraries of operators to load, by file, or ``onnxruntime-extensions``.
    """
    folder = Path(folder)
    try:
        files = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise XoptimError(f"cannot read {str(folder)!r}: {error.strerror or error}") from error
    stems = sorted({name.removesuffix(suffix) for name in files for suffix in _SUFFIXES if name.endswith(suffix)})
    stems = [stem for stem in stems if stem.partition("_")[0].isdecimal()]
    if not stems:
        raise XoptimError(f"{str(folder)!r} holds no dump; DUMPPATTERNS={folder} xopt MODEL writes one")
    options = ValidationOptions(providers=tuple(providers), custom_op_libs=tuple(custom_op_libs))
    return [_replay(folder, stem, files, options) for stem in stems]


def _replay(folder: Path, stem: str, files: set[str], options: ValidationOptions) -> Replayed:
    name = stem.partition("_")[2]
    missing = [stem + suffix for suffix in _SUFFIXES if stem + suffix not in files]
    if missing:
        return Replayed(stem, name, None, f"{missing[0]} is missing; the dump is incomplete")
    try:
        before, after = (read_proto(folder / f"{stem}.{kind}.onnx") for kind in ("before", "after"))
    except ModelError as error:
        return Replayed(stem, name, None, str(error))
    written = {entry.key: entry.value for entry in before.metadata_props}
    name, exactness = written.get("xoptim.pattern", name), written.get("xoptim.exactness", "rounding")
    if exactness not in GRADES:
        return Replayed(stem, name, None, f"{stem}.before.onnx: there is no exactness {exactness!r}")
    options = replace(options, exactness=exactness)
    unfit = _unfit(before)
    report = ValidationReport("not validated", unfit, options.exactness, options.providers) if unfit else None
    return Replayed(stem, name, report or validate(before, after, options))


def _unfit(model: onnx.ModelProto) -> str:
    """The reason why a fragment cannot be run, empty when it can."""
    if not model.graph.output:
        return "no result of the matched nodes is read"
    unknown = [v.name for v in model.graph.input if not _is_typed(v.type)]
    return f"the type of input {unknown[0]!r} is not known, as always within local functions" if unknown else ""


def _is_typed(proto: onnx.TypeProto) -> bool:
    kind = proto.WhichOneof("value")
    return kind is not None and (kind != "tensor_type" or proto.tensor_type.elem_type != 0)
