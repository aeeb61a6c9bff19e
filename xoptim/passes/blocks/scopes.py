"""The modules from which nodes come, if the exporter left their names, and the names of blocks."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from xoptim.graph.node import Node

Scope = tuple[str, ...]
"""The modules around a node, outermost first; empty when they are not known."""

_NAMES: Final = re.compile("'([^']*)'")
"""The names in a list of names as Python writes it."""


def scope_of(node: Node) -> Scope:
    """The scope of a node: from the metadata that torch's exporter writes, else from its name,
    ``/encoder/layer.0/Add``.
    """
    metadata = node.metadata_props()
    written = metadata.get("pkg.torch.onnx.name_scopes")
    if written is not None:
        return _relative(_NAMES.findall(written))[:-1]
    if "namespace" in metadata:
        return _relative(
            part.partition(":")[0].strip() for part in metadata["namespace"].split("/")
        )[:-1]
    return tuple(part for part in node.name.split("/")[:-1] if part)


def _relative(names: Iterable[str]) -> Scope:
    """Each name without the name of the module around it: ``layer.0`` of ``encoder.layer.0``."""
    found: list[str] = []
    outer = ""
    for name in filter(None, names):
        found.append(name.removeprefix(f"{outer}."))
        outer = name
    return tuple(found)


def scopes_of(nodes: Iterable[Node]) -> list[Scope | None]:
    """The scopes of the nodes in one place of all copies of a block, where they differ.

    A rewrite of many nodes at once gives all new nodes the scope of one: where several copies have
    the same scope, ``None``.
    """
    found = [scope_of(node) for node in nodes]
    return [scope if scope and found.count(scope) == 1 else None for scope in found]


def common(scopes: Iterable[Scope | None]) -> Scope | None:
    """The innermost scope around all of these; ``None`` for none of them."""
    known = [scope for scope in scopes if scope is not None]
    if not known:
        return None
    low, high = min(known), max(known)
    length = next(
        (i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b),
        min(len(low), len(high)),
    )
    return low[:length]


def name_of(scopes: Sequence[Scope]) -> str:
    """An identifier for modules with these scopes: their common words, without numbers that differ.

    Empty for none.
    """
    texts = [".".join(scope).split(".") for scope in scopes]
    if len({len(words) for words in texts}) > 1:
        texts = [list(common(scopes) or ())]
    kept = []
    for words in zip(*texts, strict=True):
        if len(set(words)) == 1:
            kept.append(words[0])
        elif not all(word.isdecimal() for word in words):
            break
    name = re.sub(r"\W+", "_", "_".join(kept), flags=re.ASCII).strip("_")
    return f"block_{name}" if name[:1].isdigit() else name


class BlockNames:
    """The names of a block.

    They come from the scopes of its nodes: the innermost scope around all nodes of a copy. Where
    there are no scopes, or those of the copies have nothing in common, the block is named after its
    operators.
    """

    def __init__(self, copies: Sequence[Sequence[Node]]) -> None:
        found = [
            common(row) or ()
            for row in zip(*map(scopes_of, zip(*copies, strict=True)), strict=True)
        ]
        own = name_of(found) if len(set(found)) == len(found) else ""
        around = common(scope_of(node) or None for copy in copies for node in copy) or ()
        # a name for the block, an identifier
        self.title = own or "_".join(filter(None, (name_of([around]), _operators(copies[0]))))
        self.calls = ["/".join(scope) or self.title for scope in found]  # a name for each copy
        scopes = (".".join(found[0]), "/".join(found[0])) if found[0] else ()
        self._inside = [f"{scope}{end}" for scope in scopes for end in ("/", ".")]

    def short(self, name: str) -> str:
        """The name of a value or a node of the first copy without the scope of that copy."""
        for scope in self._inside:
            _, found, rest = name.partition(scope)
            if found and rest:
                return rest
        return name


def _operators(nodes: Sequence[Node]) -> str:
    """The first operators of a block, and their number."""
    kinds = list(dict.fromkeys(node.op_type for node in nodes))
    return "_".join((*kinds[:3], str(len(nodes))))
