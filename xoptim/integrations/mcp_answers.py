"""What an agent needs of a JSON document, which may have a million characters as a whole."""

from typing import Any, Final

_MOST_REFUSALS: Final = 4


def summary_of(command: str, result: Any) -> tuple[Any, str]:
    """A document without its long lists, and a note about what was left out.

    The note is empty when nothing was. The document is as its JSON schema says in any case.
    """
    if command == "optimize" and isinstance(result, dict):
        return _without_runs(result), ""
    if command == "verify" and isinstance(result, list):
        return [_shortened(each) for each in result], ""
    if command == "place" and isinstance(result, list):
        return _nodes_left(result)
    if command == "explain" and isinstance(result, dict):
        return _nearest(result)
    return result, ""


def _without_runs(result: dict[str, Any]) -> dict[str, Any]:
    return result | {"validation": [_shortened(each) for each in result["validation"]]}


def _shortened(report: dict[str, Any]) -> dict[str, Any]:
    """A comparison without its single runs."""
    return report | {"runs": []}


def _nodes_left(result: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """Placements with the nodes that a target leaves; those that it takes are counted elsewhere."""
    left = [
        each | {"nodes": [node for node in each["nodes"] if not node["is_taken"]]}
        for each in result
    ]
    count = sum(len(each["nodes"]) for each in result) - sum(len(each["nodes"]) for each in left)
    return left, f"{count} nodes that the target takes are left out" if count else ""


def _nearest(result: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """All matches, and the first refusals, each reason once."""
    matches = [each for each in result["explanations"] if each["status"] == "matches"]
    refusals = {
        each["reason"]: each for each in result["explanations"] if each["status"] != "matches"
    }
    kept = [*matches, *list(refusals.values())[:_MOST_REFUSALS]]
    left = len(result["explanations"]) - len(kept)
    found = result | {"explanations": [each | {"others": []} for each in kept]}
    return found, f"{left} more places with refusals like these are left out" if left else ""
