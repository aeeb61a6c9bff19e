"""The records of a batch, a line of ``results.jsonl`` for each model, and the report of all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

from xoptim.facts.errors import XoptimError
from xoptim.facts.json_results import JsonResult
from xoptim.facts.json_values import parse_json

Status = Literal["done", "not verified", "different", "failed", "crashed", "timeout"]
"""The outcome of a model.

Results are written for the first two: found equal (or not compared, with ``--no-verify``), and not
verified.
"""
STATUS: Final[Mapping[int, Status]] = {0: "done", 3: "not verified", 1: "different", 2: "failed"}
"""Status by the exit code of the command, from good to bad."""
_EXIT_CODES: Final[Mapping[Status, int]] = {
    **{status: code for code, status in STATUS.items()},
    "crashed": 2,
    "timeout": 2,
}


class BatchError(XoptimError):
    """A batch cannot begin or continue: no model, two for the same file, or a folder in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(JsonResult):
    """The outcome of a model in a batch.

    Attributes:
        model: the file of the model.
        output: the file of the result, relative to the folder of the batch.
        status: the outcome.
        nodes_before: number of nodes, subgraphs included; ``None`` where it is not known.
        nodes_after: number of nodes of the result; ``None`` where it is not known.
        bytes_before: size of the model and its weights; ``None`` where it is not known.
        bytes_after: size of the result; ``None`` where it is not known.
        seconds: duration, in seconds.
        verdict: the result of the verification; empty when there was none.
        assumptions: assumptions in force, in addition to the default set.
        remarks: findings and hints that the command prints about the model.
        error: the reason of a failure, in one line.
        key: hash of the model, the options and the versions.
        written: SHA-256 of each file written, by its path relative to the folder of the batch.
    """

    model: str
    output: str
    status: Status
    nodes_before: int | None = None
    nodes_after: int | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None
    seconds: float = 0.0
    verdict: str = ""
    assumptions: Sequence[str] = ()
    remarks: Sequence[str] = ()
    error: str = ""
    key: str = ""
    written: Mapping[str, str] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """The exit code of ``xopt`` for this model; 2 after a crash or an exceeded limit."""
        return _EXIT_CODES[self.status]

    @property
    def is_settled(self) -> bool:
        """Whether another run with the same key would have the same outcome; not after a failure,
        whose reason may be gone.
        """
        return self.exit_code != 2

    def to_line(self) -> str:
        """The record as a line of JSON, without the end of the line."""
        return json.dumps(self.to_json(), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_line(cls, line: str) -> Self:
        """The record of a line.

        Raises `ValueError` when the line is not a record, for instance the beginning of one.
        """
        values = parse_json(line)
        if not isinstance(values, dict):
            raise ValueError("it is not a JSON object")
        for name, value in values.items():
            if name not in _VALUES or not _VALUES[name](value):
                raise ValueError(f"{name!r} has a wrong value")
        missing = [name for name in _REQUIRED if name not in values]
        if missing:
            raise ValueError(f"{missing[0]!r} is missing")
        lists = {name: tuple(values.get(name, ())) for name in ("assumptions", "remarks")}
        return cls(**{**values, **lists})


def is_text(value: object) -> bool:
    """Whether a value is a text that can be encoded: JSON allows lone surrogates."""
    return isinstance(value, str) and value.encode(errors="replace").decode() == value


def _is_count(value: object) -> bool:
    return value is None or (type(value) is int and 0 <= value < _MAX_NUMBER)


def _is_time(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value < _MAX_NUMBER  # type: ignore[operator]


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(is_text, value))


def _are_named_texts(value: object) -> bool:
    return isinstance(value, dict) and all(is_text(text) for pair in value.items() for text in pair)


_MAX_NUMBER: Final = 1 << 63
_REQUIRED: Final = ("model", "output", "status")
_VALUES: Final[Mapping[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("model", "output", "verdict", "error", "key"), is_text),
    **dict.fromkeys(("nodes_before", "nodes_after", "bytes_before", "bytes_after"), _is_count),
    "status": lambda value: isinstance(value, str) and value in _EXIT_CODES,
    "seconds": _is_time,
    **dict.fromkeys(("assumptions", "remarks"), _are_texts),
    "written": _are_named_texts,
}
"""Whether a value in a file is valid for a field of a record: others may have written the file."""


def worst_code(records: list[Record]) -> int:
    """The exit code of the worst model; 0 when there is none."""
    return max((record.exit_code for record in records), key=[*STATUS].index, default=0)


@dataclass(frozen=True, slots=True)
class BatchStep:
    """The state of a batch while it runs."""

    done: int  # number of models that ended
    total: int  # number of models
    record: Record | None = None  # the model that ended last, ``None`` at the beginning
    # whether that model was skipped, since it was done before and is unchanged
    was_done: bool = False


@dataclass(frozen=True, slots=True)
class BatchReport:
    """The outcomes of the models of a batch."""

    records: list[Record]  # one for each model, in the order of the models
    # results (`Record.output`) of the models that were done before and are unchanged
    skipped: frozenset[str]
    seconds: float  # time of the batch

    @property
    def exit_code(self) -> int:
        """The worst exit code of a model: 0 written and equal, 3 written but not verified, 1
        different, 2 without a result.
        """
        return worst_code(self.records)
