"""The depth of a text in the syntax of `onnx.parser`, which ends the process on a text that is
nested too deeply.
"""

import re
from typing import Final

_DEEPEST: Final = 200
"""Brackets within brackets; a protobuf of 100 levels needs fewer."""
_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\])*"?|#[^\n]*|=>|[(<{\[]|[)>}\]]', re.DOTALL)


def is_too_deep(text: str) -> bool:
    """Whether brackets are nested too deeply for the parser.

    Those in strings and comments do not count.
    """
    depth = 0
    for found in _TOKEN.finditer(text):
        token = found[0]
        if token in "(<{[":
            depth += 1
        elif token in ")>}]":
            depth = max(depth - 1, 0)
        if depth > _DEEPEST:
            return True
    return False
