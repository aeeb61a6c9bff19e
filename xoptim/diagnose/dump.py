"""Write the matched nodes of a rewrite and their replacement as two small models that can run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import onnx

from xoptim.diagnose.grade import held_to
from xoptim.engine.events import Application, Event, for_applications
from xoptim.facts.errors import XoptimError
from xoptim.graph.side_by_side import side_by_side


def dump_to(folder: Path) -> Callable[[Event], None]:
    """A listener to events that dumps each rewrite into a folder; see `dump_application`."""
    return for_applications(partial(dump_application, folder))


def dump_application(folder: Path, application: Application) -> None:
    """Write ``NUMBER_PATTERN.before.onnx``, ``.after.onnx`` and ``.txt`` into a folder, which is created when missing.

    The models are those of `xoptim.graph.side_by_side`. Their metadata names the pattern and its exactness.

    Args:
        folder: the folder.
        application: the rewrite.

    Raises:
        XoptimError: when the folder cannot be written.
    """
    pattern, matched, given = application.pattern, application.matched, application.given
    if not matched:  # a rewrite of a whole model
        return
    name = pattern.name()
    models = side_by_side(application.graph, matched, given)
    exactness = held_to(pattern.exactness, models)
    for model in models:
        onnx.helper.set_model_props(model, {"xoptim.pattern": name, "xoptim.exactness": exactness})
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
