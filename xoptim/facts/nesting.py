"""The nesting depth of ONNX text: `onnx.parser` crashes the process on text nested too deeply."""

import re
from typing import Final

_MAX_DEPTH: Final = 200
"""Maximal depth of brackets; a protobuf of 100 levels needs less."""
_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\])*"?|#[^\n]*|=>|[(<{\[]|[)>}\]]', re.DOTALL)


def is_too_deep(text: str) -> bool:
    """Whether brackets outside strings and comments are nested too deeply for the parser."""
    depth = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "(<{[":
            depth += 1
        elif token in ")>}]":
            depth = max(depth - 1, 0)
        if depth > _MAX_DEPTH:
            return True
    return False
