"""The JSON Schemas of the command's JSON output: `json_schema`."""

import json
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from importlib.resources import files
from typing import Any, Final

from xoptim.facts.errors import XoptimError
from xoptim.facts.words import suggestion

VERSION: Final = 1
"""The version of all schemas. It rises when a field is removed or changes, not for an added one."""
FILE: Final = files("xoptim") / "schemas.json"
"""The schemas of all documents, and the definitions that they share, written by ``make docs``."""
REFERENCE: Final = "#/$defs/"
"""The prefix of a reference to a definition."""


@cache
def _contents() -> dict[str, dict[str, Any]]:
    """The documents and the definitions in `FILE`."""
    contents: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return contents


def schema_names() -> list[str]:
    """The names of the documents that have a schema, sorted."""
    return sorted(_contents()["documents"])


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the output of a command with ``--json``.

    Objects may have more fields than the schema describes: a later version may add some. The number
    in ``$id``, ``urn:xoptim:schema:1:verify``, rises when a field is removed or changes.

    Args:
        name: the command; ``batch`` for a line of ``results.jsonl``, ``mcp`` for the answer of a
            tool.

    Raises:
        XoptimError: when there is no such schema.
    """
    names = schema_names()
    if name not in names:
        hint = suggestion(name, set(names), f"there are {', '.join(names)}", most=3)
        raise XoptimError(f"no JSON schema is called {name!r}; {hint}")
    definitions = _contents()["definitions"]
    schema: dict[str, Any] = deepcopy(_contents()["documents"][name])
    used_definitions: dict[str, Any] = {}
    _add_definitions(schema, definitions, used_definitions)
    return with_properties({**schema, "$defs": used_definitions})


def with_properties(schema: dict[str, Any]) -> dict[str, Any]:
    """Copy ``type`` and ``properties`` of the definition that a schema refers to into the schema.

    Type generators look for the properties of a document there, and not behind its ``$ref``. A
    schema that refers to no definition stays as it is.
    """
    definitions = schema["$defs"]
    root = definitions.get(str(schema.get("$ref", "")).removeprefix(REFERENCE), {})
    object_members = {key: root[key] for key in ("type", "properties") if key in root}
    other_members = {key: value for key, value in schema.items() if key != "$defs"}
    return {**other_members, **object_members, "$defs": definitions}


def _add_definitions(
    value: Any, definitions: Mapping[str, Any], used_definitions: dict[str, Any]
) -> None:
    """Add to ``used_definitions`` the definitions that a schema refers to, in order."""
    if isinstance(value, list):
        for item in value:
            _add_definitions(item, definitions, used_definitions)
    if not isinstance(value, dict):
        return
    name = str(value.get("$ref", "")).removeprefix(REFERENCE)
    if name and name not in used_definitions:
        used_definitions[name] = deepcopy(definitions[name])
        _add_definitions(used_definitions[name], definitions, used_definitions)
    for item in value.values():
        _add_definitions(item, definitions, used_definitions)
