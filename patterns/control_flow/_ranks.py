"""The ranks that operators require of an operand."""

from __future__ import annotations

from typing import Final

from xoptim.facts.families import ELEMENTWISE
from xoptim.match import Graph, GraphView, Node

_RECURRENT: Final = frozenset(("LSTM", "GRU", "RNN"))
_DEPTH: Final = 4


def required_ranks(g: GraphView, name: str) -> set[int]:
    """The ranks that readers of a result require."""
    found, names = set(), [name]
    for _ in range(_DEPTH):
        readers = [(reader, name) for name in names for reader in g.next_nodes(name) if not reader.domain]
        found |= {rank for reader, name in readers if (rank := _required(g, reader, name)) is not None}
        names = [each.output[0] for each, name in readers if each.op_type in ELEMENTWISE and each.input[0] == name]
    return found


def _required(g: GraphView, reader: Node, name: str) -> int | None:
    """The only rank of an operand that a node accepts, if it reads it at the first place."""
    if reader.input[0] != name:
        return None
    if reader.op_type in _RECURRENT:
        return 3
    if reader.op_type == "Conv":
        return g.info(reader.input[1]).rank if g.is_stored(reader.input[1]) else None
    return len(reader.attribute["perm"]) if reader.op_type == "Transpose" and "perm" in reader.attribute else None


def inferred_rank(g: GraphView, body: Graph, name: str) -> int | None:
    """The rank of a result of a subgraph, inferred from its operands alone; ``None`` when it is unknown."""
    producer = body.producer(name)
    if producer is None:
        return None
    found = dict(zip(producer.output, g.inside(body).infer(producer), strict=False))[name]
    return found.rank if found.is_tensor else None
