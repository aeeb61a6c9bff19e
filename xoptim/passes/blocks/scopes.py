"""The modules that nodes come from, as exporters name them, and the names of blocks."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from xoptim.graph.node import Node

Scope = tuple[str, ...]
"""The modules around a node, outermost first; empty when they are not known."""

_NAMES: Final = re.compile("'([^']*)'")
"""The strings in the ``repr`` of a list."""


def scope_of(node: Node) -> Scope:
    """The scope of a node: from the metadata that torch's exporter writes, else from its name,
    ``/encoder/layer.0/Add``.
    """
    metadata = node.metadata_props()
    scopes = metadata.get("pkg.torch.onnx.name_scopes")
    if scopes is not None:
        return _relative(_NAMES.findall(scopes))[:-1]
    if "namespace" in metadata:
        return _relative(
            part.partition(":")[0].strip() for part in metadata["namespace"].split("/")
        )[:-1]
    return tuple(part for part in node.name.split("/")[:-1] if part)


def _relative(names: Iterable[str]) -> Scope:
    """Each name without the name of the module around it: ``layer.0`` of ``encoder.layer.0``."""
    scope: list[str] = []
    outer = ""
    for name in filter(None, names):
        scope.append(name.removeprefix(f"{outer}."))
        outer = name
    return tuple(scope)


def scopes_of(nodes: Iterable[Node]) -> list[Scope | None]:
    """The scopes of corresponding nodes in all copies of a block, ``None`` if empty or repeated.

    A rewrite of many nodes gives all new nodes the scope of one node.
    """
    scopes = [scope_of(node) for node in nodes]
    return [scope if scope and scopes.count(scope) == 1 else None for scope in scopes]


def common(scopes: Iterable[Scope | None]) -> Scope | None:
    """The innermost scope around all of these, ``None`` if all are ``None``."""
    present = [scope for scope in scopes if scope is not None]
    if not present:
        return None
    low, high = min(present), max(present)
    length = next(
        (i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b),
        min(len(low), len(high)),
    )
    return low[:length]


def name_of(scopes: Sequence[Scope]) -> str:
    """An identifier for modules with these scopes: their common words, without numbers that differ.

    Empty without common words.
    """
    texts = [".".join(scope).split(".") for scope in scopes]
    if len({len(words) for words in texts}) > 1:
        texts = [list(common(scopes) or ())]
    common_words = []
    for words in zip(*texts, strict=True):
        if len(set(words)) == 1:
            common_words.append(words[0])
        elif not all(word.isdecimal() for word in words):
            break
    name = re.sub(r"\W+", "_", "_".join(common_words), flags=re.ASCII).strip("_")
    return f"block_{name}" if name[:1].isdigit() else name


class BlockNames:
    """The names of a block, from the innermost scopes around all nodes of a copy.

    Without scopes, or if the scopes of the copies have nothing in common, the block is named after
    its operators.
    """

    def __init__(self, copies: Sequence[Sequence[Node]]) -> None:
        scopes = [
            common(row) or ()
            for row in zip(*map(scopes_of, zip(*copies, strict=True)), strict=True)
        ]
        name = name_of(scopes) if len(set(scopes)) == len(scopes) else ""
        outer = common(scope_of(node) or None for copy in copies for node in copy) or ()
        # a name for the block, an identifier
        self.title = name or "_".join(filter(None, (name_of([outer]), _operators(copies[0]))))
        self.calls = ["/".join(scope) or self.title for scope in scopes]  # a name for each copy
        forms = (".".join(scopes[0]), "/".join(scopes[0])) if scopes[0] else ()
        self._prefixes = [f"{form}{end}" for form in forms for end in ("/", ".")]

    def short(self, name: str) -> str:
        """The name of a value or a node of the first copy without the scope of that copy."""
        for prefix in self._prefixes:
            _, match, rest = name.partition(prefix)
            if match and rest:
                return rest
        return name


def _operators(nodes: Sequence[Node]) -> str:
    """The first operators of a block, and the number of its nodes."""
    kinds = list(dict.fromkeys(node.op_type for node in nodes))
    return "_".join((*kinds[:3], str(len(nodes))))
