"""What an agent needs of a JSON document, which may have a million characters as a whole."""

from collections import Counter
from typing import Any, Final

_MOST_REFUSALS: Final = 4
_MOST_ALIKE: Final = 2
_MOST_OPERATORS: Final = 5


def summary_of(command: str, result: Any) -> tuple[Any, str]:
    """A document without its long lists, and a note about what was left out.

    The note is empty when nothing was. The document is as its JSON schema says in any case.
    """
    left: Counter[str] = Counter()
    found = _without_runs(_with_few_nodes(result, left))
    if isinstance(found, dict) and isinstance(found.get("precision"), dict):
        found["precision"] = _costliest(found["precision"], left)
    if command == "explain" and isinstance(found, dict):
        found = _nearest(found, left)
    return found, ", ".join(f"{count} {text}" for text, count in left.items())


def _without_runs(result: Any) -> Any:
    """The same with comparisons that do not list each run."""
    if isinstance(result, list):
        return [_without_runs(each) for each in result]
    if not isinstance(result, dict):
        return result
    found = {key: _without_runs(each) for key, each in result.items()}
    return found | {"runs": []} if {"runs", "faults"} <= found.keys() else found


def _with_few_nodes(result: Any, left: Counter[str]) -> Any:
    """The same with placements that list the nodes that a target leaves, a few for each reason."""
    if isinstance(result, list):
        return [_with_few_nodes(each, left) for each in result]
    if not isinstance(result, dict):
        return result
    found = {key: _with_few_nodes(each, left) for key, each in result.items()}
    if {"nodes", "taken", "partitions"} <= found.keys():
        found["nodes"] = _few(found["nodes"], left)
    return found


def _costliest(precision: dict[str, Any], left: Counter[str]) -> dict[str, Any]:
    """A quantization with the operators that stay in float32 and err most."""
    kept = [each for each in precision["operators"] if not each["is_quantized"]]
    kept = sorted(kept, key=lambda each: -float(each["error"]))[:_MOST_OPERATORS]
    if more := len(precision["operators"]) - len(kept):
        left["operators that can be quantized are left out"] = more
    return precision | {"operators": kept}


def _few(nodes: list[dict[str, Any]], left: Counter[str]) -> list[dict[str, Any]]:
    seen: Counter[tuple[str, str]] = Counter()
    kept = []
    for node in nodes:
        kind = (node["op_type"], node["reason"])
        seen[kind] += 1
        if node["is_taken"] or not node["reason"]:
            left["nodes that the target takes, or that are computed ahead, are left out"] += 1
        elif seen[kind] > _MOST_ALIKE:
            left["nodes that it leaves for the same reason as those shown are left out"] += 1
        else:
            kept.append(node)
    return kept


def _nearest(result: dict[str, Any], left: Counter[str]) -> dict[str, Any]:
    """The first matches, and the first refusals, each reason once."""
    matches = [each for each in result["explanations"] if each["status"] == "matches"]
    refusals = {
        each["reason"]: each for each in result["explanations"] if each["status"] != "matches"
    }
    kept = [*matches[:_MOST_ALIKE], *list(refusals.values())[:_MOST_REFUSALS]]
    if more := len(result["explanations"]) - len(kept):
        left["more places are left out"] = more
    return result | {"explanations": [each | {"others": []} for each in kept]}
