"""The JSON Schemas of what the command prints as JSON: `json_schema`."""

import json
from pathlib import Path
from typing import Any, Final

from xoptim.facts.errors import XoptimError
from xoptim.facts.words import suggestion

VERSION: Final = 1
"""The version of all schemas, which a removed or changed field raises; an added one does not."""
FOLDER: Final = Path(__file__).parents[1] / "schemas"
"""The folder with a file for each schema, written by ``make docs``."""


def schema_names() -> list[str]:
    """The names of the documents that have a schema, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of what a command prints with ``--json``.

    Objects may have more fields than the schema describes: a later version may add some. The number
    in ``$id``, ``urn:xoptim:schema:1:verify``, rises when a field is removed or changes.

    Args:
        name: the command; ``batch`` for a line of ``results.jsonl``, ``mcp`` for the answer of a
            tool.

    Raises:
        XoptimError: when there is no such schema.
    """
    known = schema_names()
    if name not in known:
        hint = suggestion(name, set(known), f"there are {', '.join(known)}", most=3)
        raise XoptimError(f"no JSON schema is called {name!r}; {hint}")
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found
