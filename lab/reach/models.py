"""Compare the numbers of nodes in results of xoptim and onnxruntime, for a folder of models.

    python -m lab.reach.models FOLDER [--only PART_OF_A_NAME] [--json FILE]

Each model is optimized by onnxruntime offline, at the levels ``basic`` and ``extended`` of its
graph optimizations, and by xoptim: by default, with the preset ``onnxruntime`` at the same operator
set, and as ``xopt fast`` does. The subfolder of a model is its kind. Nodes are counted as
`lab.reach.peers.operators` does, those of subgraphs included. Results of xoptim are compared with
the original in onnxruntime, on inputs that `xoptim.verify` makes.

``lab/reach/models.toml`` states why some kinds keep more nodes than in onnxruntime's result.
"""

import argparse
import importlib.util
import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from statistics import geometric_mean
from typing import Any, Final, NamedTuple, TypedDict

import onnx

import xoptim
from benchmarks.tools import PEERS, apart, offline
from lab.reach.peers import operators

COLUMNS: Final = ("original", "basic", "extended", "default", "onnxruntime", "fast", "onnxslim")
"""Columns of the table: the original, two of onnxruntime, three of xoptim, and a peer."""
OPTIONS: Final[Mapping[str, dict[str, Any]]] = {
    "default": {},
    "onnxruntime": {"patterns": "default+onnxruntime"},
    "fast": {"patterns": "default+onnxruntime", "opset": "newest"},
}
"""The options of xoptim for each of its columns."""
RIVALS: Final = (("basic", "default"), ("extended", "fast"))
"""Columns that are compared: one of onnxruntime with one of xoptim."""
KINDS_OF_FAILURES: Final = {
    "Results of xoptim with wrong numbers": "different: ",
    "Exceptions of xoptim": "exception: ",
    "Results of xoptim that cannot be verified": "not verified: ",
    "Models that other optimizers refuse": "",
}
"""The titles of the lists of failures, with the prefix of the failures in each list."""
REASONS: Final = Path(__file__).with_suffix(".toml")
_SECONDS: Final = 60.0
"""Time limit of a model."""


class Counted(TypedDict):
    """What became of one model.

    Attributes:
        name: the path of the model in its folder, without its suffix.
        nodes: how often each operator occurs, by column; a column without a result is missing.
        failures: why a column has no result, or a wrong one.
    """

    name: str
    nodes: dict[str, dict[str, int]]
    failures: dict[str, str]


class Reason(NamedTuple):
    """Why onnxruntime may leave fewer nodes.

    Attributes:
        models: patterns of names of models, such as ``fusion/gelu*``.
        against: column of onnxruntime that has fewer nodes.
        reason: the reason, with a measurement.
    """

    models: tuple[str, ...]
    against: str
    reason: str


def read_reasons(path: Path = REASONS) -> tuple[Reason, ...]:
    """The reasons that a table states."""
    rows = tomllib.loads(path.read_text(encoding="utf-8")).get("reason", [])
    return tuple(Reason(tuple(row["models"]), row["against"], row["reason"]) for row in rows)


def count_model(path: Path, folder: Path) -> Counted:
    """Optimize one model in all ways, and count nodes.

    The failures name exceptions of xoptim, and results that compute other numbers.
    """
    counted = Counted(name=_name(path, folder), nodes={}, failures={})
    try:
        original = onnx.load(path)
    except Exception as error:  # the parser of protobuf raises its own
        return counted | {"failures": {"original": _line(error)}}
    counted["nodes"]["original"] = dict(operators(original))
    for level in ("basic", "extended"):
        try:
            counted["nodes"][level] = dict(operators(offline(original, level)))
        except Exception as error:  # onnxruntime does not load every model
            counted["failures"][level] = _line(error)
    if importlib.util.find_spec("onnxslim"):
        try:
            copy = onnx.ModelProto.FromString(original.SerializeToString())
            counted["nodes"]["onnxslim"] = dict(operators(PEERS["onnxslim"](copy)))
        except Exception as error:  # other packages raise any exception
            counted["failures"]["onnxslim"] = _line(error)
    _count_ours(original, counted)
    return counted


def _count_ours(original: onnx.ModelProto, counted: Counted) -> None:
    """Add the columns of xoptim. Columns with the same result are verified once."""
    verdicts: dict[bytes, str] = {}
    for column, options in OPTIONS.items():
        try:
            result = xoptim.optimize(original, **options)
            counted["nodes"][column] = dict(operators(result))
            content = result.SerializeToString(deterministic=True)
            if content not in verdicts:
                report = xoptim.verify(original, result)
                verdicts[content] = "" if report.ok else f"{report.status}: {report.reason}"
        except Exception as error:  # the report lists all exceptions of xoptim
            counted["failures"][column] = f"exception: {_line(error)}"
        else:
            if verdicts[content]:
                counted["failures"][column] = verdicts[content]


def count_models(folder: Path, only: str = "") -> Iterator[Counted]:
    """Count the models of a folder whose name contains a text; each kind has its own process."""
    kinds: dict[Path, list[Path]] = {}
    for path in sorted(folder.rglob("*.onnx")):
        if only in _name(path, folder):
            kinds.setdefault(path.parent, []).append(path)
    for paths in kinds.values():
        yield from _count_apart(paths, folder)


def _count_apart(paths: Sequence[Path], folder: Path) -> list[Counted]:
    try:
        counts: list[Counted] = apart(_count_all, paths, folder, limit=_SECONDS * len(paths))
    except RuntimeError as error:
        if len(paths) > 1:
            return [count for path in paths for count in _count_apart([path], folder)]
        failures = {"default": f"exception: {_line(error)}"}
        return [Counted(name=_name(paths[0], folder), nodes={}, failures=failures)]
    return counts


def _count_all(paths: Sequence[Path], folder: Path) -> list[Counted]:
    return [count_model(path, folder) for path in paths]


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).with_suffix("").as_posix()


def _line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines or [type(error).__name__])[0][:160]


def report(counts: Sequence[Counted], reasons: Sequence[Reason]) -> str:
    """The report: nodes by model and kind, models for which onnxruntime has fewer nodes, and
    failures.
    """
    kinds: dict[str, list[Counted]] = {}
    for count in counts:
        kinds.setdefault(count["name"].rpartition("/")[0] or ".", []).append(count)
    lines = ["| model | " + " | ".join(COLUMNS) + " |", "|---|" + "---|" * len(COLUMNS)]
    lines += [_row(count["name"], _totals(count)) for count in counts]
    lines += ["", "Geometric means of nodes, 1 = original:", ""]
    lines += ["| kind | models | " + " | ".join(COLUMNS[1:]) + " |"]
    lines += ["|---|---|" + "---|" * len(COLUMNS[1:])]
    lines += [_mean_row(kind, members) for kind, members in (*kinds.items(), ("all", list(counts)))]
    for ort, xopt in RIVALS:
        lines += _fewer(counts, ort, xopt, reasons)
    for title, start in KINDS_OF_FAILURES.items():
        failures = [
            f"{count['name']}: {column}: {words}"
            for count in counts
            for column, words in count["failures"].items()
            if (column in OPTIONS) == bool(start) and words.startswith(start)
        ]
        lines += ["", f"{title}: {len(failures)}", *failures]
    return "\n".join(lines) + "\n"


def _totals(count: Counted) -> dict[str, int]:
    return {column: sum(nodes.values()) for column, nodes in count["nodes"].items()}


def _row(name: str, cells: Mapping[str, Any]) -> str:
    return f"| {name} | " + " | ".join(str(cells.get(column, "")) for column in COLUMNS) + " |"


def _mean_row(kind: str, members: Sequence[Counted]) -> str:
    """The geometric mean of each column, over the models that onnxruntime and xoptim both optimize.

    One is added to both numbers of a ratio, because a result may have no nodes.
    """
    complete = [totals for totals in map(_totals, members) if totals.keys() >= set(COLUMNS[:-1])]
    cells = []
    for column in COLUMNS[1:]:
        ratios = [
            (totals[column] + 1) / (totals["original"] + 1)
            for totals in complete
            if column in totals
        ]
        cells.append(f"{geometric_mean(ratios):.3f}" if ratios else "")
    return f"| {kind} | {len(complete)} | " + " | ".join(cells) + " |"


def _fewer(counts: Sequence[Counted], ort: str, xopt: str, reasons: Sequence[Reason]) -> list[str]:
    """The models in which a column of onnxruntime has fewer nodes than one of xoptim."""
    models = [count for count in counts if ort in count["nodes"] and xopt in count["nodes"]]
    larger_models = [count for count in models if _totals(count)[ort] < _totals(count)[xopt]]
    lines = []
    for count in larger_models:
        reason = _reason(count["name"], ort, reasons)
        first, second = (Counter(count["nodes"][column]) for column in (ort, xopt))
        sides = f"only {ort}: {_words(first - second)}; only {xopt}: {_words(second - first)}"
        total = f"{first.total()} < {second.total()}"
        lines.append(f"{count['name']}: {total}; {sides}{f'; reason: {reason}' if reason else ''}")
    open_count = sum("; reason: " not in line for line in lines)
    head = (
        f"{ort} has fewer nodes than {xopt} on {len(larger_models)} of {len(models)} models, "
        f"{open_count} without a stated reason"
    )
    return ["", head, *lines]


def _reason(name: str, against: str, reasons: Sequence[Reason]) -> str:
    """The reason that is stated for a model, or ""."""
    rows = (row for row in reasons if row.against == against)
    return next((row.reason for row in rows if any(fnmatch(name, form) for form in row.models)), "")


def _words(histogram: Counter[str]) -> str:
    return " ".join(f"{label}*{number}" for label, number in sorted(histogram.items())) or "nothing"


def main() -> None:
    """Count the folder that the arguments name."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="models whose name contains this text")
    parser.add_argument("--json", type=Path, help="a file for the counts")
    arguments = parser.parse_args()
    counts = list(count_models(arguments.folder, arguments.only))
    if arguments.json:
        arguments.json.write_text(json.dumps(counts, indent=1), encoding="utf-8")
    sys.stdout.write(report(counts, read_reasons()))


if __name__ == "__main__":
    main()
