"""The parts of an answer that an agent needs: the meaning of the exit code, and the JSON document
without its long lists. The complete document may have a million characters.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from xoptim.verification import gap_text

_MAX_REFUSALS: Final = 4
_MAX_ALIKE: Final = 2
_MAX_OPERATORS: Final = 5
_MAX_NODES: Final = 20
_MAX_DIFFERENCES: Final = 20
_MAX_COSTS: Final = 8
_MAX_PORTS: Final = 20
_MISSING: Final = "is not installed"
"""Part of the fault of a target whose provider, and not its device, is missing."""
_BY_TABLE: Final = 'target="onnx" or target="webnn"'
"""Targets that need no package."""
_QUANTIZED: Final = ("quantized", "another form")
"""Decisions about operators that do not stay in float32."""
LONGEST_ANSWER: Final = 500_000
"""Maximal number of characters of an answer as JSON."""
LONGEST_TEXT: Final = 4000
"""Maximal number of characters of a text in an answer."""
LONGEST_LIST: Final = 4000
"""Maximal number of entries of a list in an answer."""
_SHORTEST_TEXT: Final = 60
_MAX_FIELDS: Final = 64
"""Most fields of an object of a document; one with more has names of a model as keys."""
_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})
FAILED: Final = 2
"""The exit code of an answer to wrong arguments."""
_ERROR: Final = "wrong arguments, an unreadable model, or another error"
_MEANINGS: Final[Mapping[str, Mapping[int, str]]] = {
    "optimize": {
        0: "written; the result was verified to be equal to the original, within the tolerance",
        1: "the result differs from the original, or exceeds the tolerance; nothing is written",
        FAILED: f"{_ERROR}; nothing is written",
        3: "written, but not verified, or not adapted to the target; the messages say why",
    },
    "explain": {0: "done; `explanations` is empty if nothing resembles the pattern"},
    "place": {
        0: "done; `compiles`, `taken` and `left` say what runs on the target",
        3: "the execution provider of the target is missing, or finds no device",
    },
    "verify": {
        0: "equal within the tolerance on these runs",
        1: "the models differ",
        3: "not verified; `reason` says why",
    },
    "stats": {0: "done"},
    "diff": {
        0: "no difference between the graphs",
        1: "the graphs differ; `verify` says whether the outputs do",
    },
}
"""The meanings of exit codes by tool; the others mean the same for all tools."""


def meaning_of(tool: str, code: int, general: Mapping[int, str], result: Any = None) -> str:
    """An exit code of a tool in words, for its result.

    ``general`` are the meanings for all commands.
    """
    quantization = result.get("precision") if isinstance(result, dict) else None
    if tool == "optimize" and code == 0 and quantization and not quantization.get("reason"):
        return _meaning_of_quantized(quantization)
    meanings = {FAILED: _ERROR, **_MEANINGS[tool]}
    return meanings.get(code) or general.get(code, "the process ended unexpectedly")


def _meaning_of_quantized(quantization: Mapping[str, Any]) -> str:
    """The meaning of success where the result is not equal to the original, but near it."""
    return (
        "written; the float32 model was verified to be equal to the original; the "
        f"{quantization['scheme']} model has an error of {quantization['error']:.2%}, within the "
        f"tolerance of {quantization['tolerance']:.2%}"
    )


def remarks_of(command: str, result: Any) -> Iterator[str]:
    """Remarks about a result for an agent, a line each."""
    if command == "place" and isinstance(result, list):
        yield from _without_provider(result)
    if command == "diff" and isinstance(result, dict):
        yield from _operator_counts(result["differences"])
    if command == "verify" and isinstance(result, list):
        yield from _gaps(result)
    if command != "optimize" or not isinstance(result, dict):
        return
    yield from _gaps(result.get("verification", ()))
    precision, fitting = result.get("precision"), result.get("target")
    if precision and precision["target"] and not precision["reason"]:
        yield (
            f"converted to {precision['scheme']} for {precision['target']}; `precision` has the "
            "error"
        )
    if not fitting:
        return
    reasons: dict[str, list[str]] = {}
    for entry in fitting["unfit"]:
        reasons.setdefault(entry["reason"], []).append(f"{entry['pattern']} {entry['count']}")
    for reason, names in reasons.items():
        yield f"not applied for {fitting['target']}: {', '.join(names)} ({reason})"


def _gaps(reports: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The branches of equal models that no run reached, or the reason why they are not known."""
    for report in reports:
        gap = gap_text(report.get("unreached", ()), report.get("uncounted", ""), are_named=True)
        if gap and report["status"] == "equal":
            yield f"verified, but {report.get('uncounted') or gap}"


def _without_provider(placements: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Advice for targets that have no provider here, a line each."""
    for placement in placements:
        if _MISSING in placement.get("fault", ""):
            yield (
                f"ask a person to install it ({placement['install']}), or use {_BY_TABLE} for an "
                "answer from a table"
            )


def _operator_counts(differences: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The operators of removed and added nodes, a line each, where the list of these is long."""
    if len(differences) <= _MAX_DIFFERENCES:
        return
    for kind in ("removed", "added"):
        counts = Counter(
            d["detail"] for d in differences if (d["kind"], d["part"]) == (kind, "node")
        )
        if counts:
            text = ", ".join(f"{operator} {count}" for operator, count in counts.most_common())
            yield f"{kind} nodes: {text}"


def summary_of(command: str, result: Any) -> tuple[Any, str]:
    """A document without its long lists, and a note about what is not shown.

    The note is empty when everything is shown. The document conforms to its JSON schema, except
    that of an optimization: it lacks empty fields and times, which are most of its many fields.
    """
    omitted: Counter[str] = Counter()
    summary = _without_runs(_with_few_nodes(result, omitted))
    if isinstance(summary, dict) and isinstance(summary.get("precision"), dict):
        summary["precision"] = _costliest(summary["precision"], omitted)
    shorten = {"explain": _nearest, "diff": _few_differences, "stats": _largest}.get(command)
    if shorten is not None and isinstance(summary, dict):
        summary = shorten(summary, omitted)
    if command == "optimize":
        summary = _without_empty_fields(summary)
    return summary, ", ".join(f"{count} {text}" for text, count in omitted.items())


def _without_empty_fields(value: Any) -> Any:
    """A document without empty fields and times."""
    if isinstance(value, list):
        return [_without_empty_fields(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _without_empty_fields(item)
        for key, item in value.items()
        if item not in _EMPTY and not key.endswith("seconds")
    }


def _without_runs(result: Any) -> Any:
    """A document with comparisons that do not list each run.

    A difference that was accepted as rounding is in the notes only: its message reads like a fault.
    """
    if isinstance(result, list):
        return [_without_runs(item) for item in result]
    if not isinstance(result, dict):
        return result
    document = {key: _without_runs(item) for key, item in result.items()}
    if not {"runs", "faults", "largest"} <= document.keys():
        return document
    largest = document["largest"]
    is_rounding = document["status"] == "equal" and largest is not None and not largest["equal"]
    return document | {"runs": [], "largest": None if is_rounding else largest}


def _with_few_nodes(result: Any, omitted: Counter[str]) -> Any:
    """A document with placements that list the nodes that a target leaves, a few per reason."""
    if isinstance(result, list):
        return [_with_few_nodes(item, omitted) for item in result]
    if not isinstance(result, dict):
        return result
    document = {key: _with_few_nodes(item, omitted) for key, item in result.items()}
    if {"nodes", "taken", "partitions"} <= document.keys():
        document["nodes"] = _few(document["nodes"], omitted, compiles=document["compiles"])
    return document


def _costliest(precision: dict[str, Any], omitted: Counter[str]) -> dict[str, Any]:
    """A quantization that lists only a few operators that stay in float32, those of largest error.

    Each operator is listed once, in its most accurate form.
    """
    ranked = sorted(precision["operators"], key=lambda entry: -float(entry["error"]))
    in_float = {entry["result"]: entry for entry in ranked if entry["decision"] not in _QUANTIZED}
    shown = sorted(in_float.values(), key=lambda entry: -float(entry["error"]))[:_MAX_OPERATORS]
    hidden = {
        "more operators that stay in float32 are not shown": len(in_float) - len(shown),
        "quantized operators are not shown": sum(entry["is_quantized"] for entry in ranked),
    }
    omitted.update({text: count for text, count in hidden.items() if count})
    return precision | {"operators": shown}


def _few(
    nodes: list[dict[str, Any]], omitted: Counter[str], *, compiles: bool
) -> list[dict[str, Any]]:
    """The nodes that a target leaves, a few for each operator and reason."""
    text = (
        "nodes that the target takes, or that are computed ahead, are not shown"
        if compiles
        else "nodes without a known reason are not shown"
    )
    seen: Counter[tuple[str, str]] = Counter()
    shown: list[dict[str, Any]] = []
    for node in nodes:
        if not _is_left(node):
            omitted[text] += 1
            continue
        kind = (node["op_type"], node["reason"])
        seen[kind] += 1
        if seen[kind] > _MAX_ALIKE:
            omitted["nodes that the target leaves for the reasons shown are not shown"] += 1
        elif len(shown) == _MAX_NODES:
            omitted["more nodes that the target leaves are not shown"] += 1
        else:
            shown.append(node)
    return shown


def _is_left(node: dict[str, Any]) -> bool:
    """Whether a target leaves a node, and the node has a reason or runs on another provider.

    Nodes that compute shapes run on the CPU on purpose; nodes without a provider do not run.
    """
    is_elsewhere = bool(node["provider"]) and not node["is_shape_arithmetic"]
    return not node["is_taken"] and (bool(node["reason"]) or is_elsewhere)


def _nearest(result: dict[str, Any], omitted: Counter[str]) -> dict[str, Any]:
    """The first matches, and the nearest refusals, each reason once."""
    matches = [entry for entry in result["explanations"] if entry["status"] == "matches"]
    refusals: dict[str, dict[str, Any]] = {}
    for entry in result["explanations"]:
        if entry["status"] != "matches":
            refusals.setdefault(entry["reason"], entry)
    shown = [*matches[:_MAX_ALIKE], *list(refusals.values())[:_MAX_REFUSALS]]
    if more := len(result["explanations"]) - len(shown):
        omitted["more nodes are not shown"] = more
    return result | {"explanations": [entry | {"others": []} for entry in shown]}


def _few_differences(result: dict[str, Any], omitted: Counter[str]) -> dict[str, Any]:
    """The first differences, a few of each kind and operator."""
    seen: Counter[tuple[str, str, str]] = Counter()
    shown: list[dict[str, Any]] = []
    for entry in result["differences"]:
        kind = (entry["kind"], entry["part"], entry["detail"])
        seen[kind] += 1
        if seen[kind] <= _MAX_ALIKE and len(shown) < _MAX_DIFFERENCES:
            shown.append(entry)
        else:
            omitted[f"{entry['kind']} {entry['part']}s are not shown"] += 1
    return result | {"differences": shown}


def _largest(result: dict[str, Any], omitted: Counter[str]) -> dict[str, Any]:
    """The first inputs, outputs and blocks, and the layers and operators that cost most."""
    costs = dict(result["costs"])
    for key, text in (("by_operator", "operators"), ("by_layer", "layers")):
        ranked = sorted(costs[key].items(), key=lambda item: -item[1]["flops"])
        costs[key] = dict(_first(ranked, _MAX_COSTS, f"{text} of `costs`", omitted))
    return result | {
        "inputs": dict(_first(list(result["inputs"].items()), _MAX_PORTS, "inputs", omitted)),
        "outputs": dict(_first(list(result["outputs"].items()), _MAX_PORTS, "outputs", omitted)),
        "repeats": _first(result["repeats"], _MAX_COSTS, "repeated blocks", omitted),
        "costs": costs,
    }


def _first(items: Sequence[Any], most: int, text: str, omitted: Counter[str]) -> list[Any]:
    """The first items; the others are counted."""
    if len(items) > most:
        omitted[f"{text} are not shown"] += len(items) - most
    return list(items[:most])


def bounded(answer: Mapping[str, Any]) -> dict[str, Any]:
    """An answer of at most `LONGEST_ANSWER` characters, whose last message says what was cut.

    Names and texts of a model may be of any length, and hold characters that JSON cannot encode.
    """
    text, entries = LONGEST_TEXT, LONGEST_LIST
    while entries:
        cuts_by_kind: Counter[str] = Counter()
        result: dict[str, Any] = _bounded(dict(answer), text, entries, cuts_by_kind)
        if cuts_by_kind:
            cuts = ", ".join(f"{kind} ({count})" for kind, count in cuts_by_kind.items())
            result["messages"] = [*result["messages"], f"the answer is too long; cut: {cuts}"]
        if len(json.dumps(result)) <= LONGEST_ANSWER:
            return result
        text, entries = max(text // 4, _SHORTEST_TEXT), entries // 4
    note = f"the result has more than {LONGEST_ANSWER:,} characters, and is not shown"
    return {**answer, "result": None, "messages": [note]}


def _bounded(value: Any, text: int, entries: int, cut: Counter[str]) -> Any:
    """A part of an answer; what is cut is counted."""
    if isinstance(value, str):
        return _bounded_text(value, text, cut)
    if isinstance(value, dict):
        pairs = _bounded_list(list(value.items()), max(entries, _MAX_FIELDS), cut)
        shown: dict[str, Any] = {}
        for key, item in pairs:
            name = _bounded_text(key, text, cut)
            unique = name if name not in shown else f"{name} ({len(shown)})"
            shown[unique] = _bounded(item, text, entries, cut)
        return shown
    if isinstance(value, list):
        items = _bounded_list(value, entries, cut)
        return [_bounded(item, text, entries, cut) for item in items]
    return value


def _bounded_text(value: str, most: int, cut: Counter[str]) -> str:
    if len(value) > most:
        cut[f"texts after {most} characters"] += 1
        value = f"{value[:most]}..."
    return value if value.isascii() else value.encode(errors="backslashreplace").decode()


def _bounded_list(value: list[Any], most: int, cut: Counter[str]) -> list[Any]:
    if len(value) > most:
        cut[f"lists after {most} entries"] += 1
    return value[:most]
