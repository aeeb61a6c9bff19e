"""The nodes and constants of a model that were read, so that each is read once while it stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from xoptim.facts.shapes import Info
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor
from xoptim.proof.values import Value


@final
class Content:
    """The bits of a constant: constants of equal types, shapes and bits are equal.

    A few of its bytes decide its hash; all of them are hashed only where these are equal.
    """

    __slots__ = ("_hash", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self._hash = hash((tensor.dtype, tensor.shape, tensor.sample(1)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Content) or self._hash != other._hash:
            return False
        return self.tensor is other.tensor or self.tensor.key() == other.tensor.key()

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node when it was read, with its results: they hold as long as nothing here has changed."""

    op_type: str
    domain: str
    operands: tuple[Value | None, ...]
    attribute: Mapping[str, Any]
    opset: int
    infos: tuple[Info, ...]
    results: Sequence[Value]

    def holds(self, node: Node, operands: Sequence[Value | None], infos: Sequence[Info]) -> bool:
        """Whether a node is as it was, and so are the values of its operands."""
        return (
            (self.op_type, self.domain) == (node.op_type, node.domain)
            and self.attribute is node.attribute
            and self.opset == node.opset
            and len(self.operands) == len(operands)
            and len(self.infos) == len(infos)
            and all(a is b for a, b in zip(self.infos, infos, strict=True))
            and all(
                (None if a is None else a.root) is b
                for a, b in zip(self.operands, operands, strict=True)
            )
        )


class Memory:
    """The nodes and constants that were read: each is read once while it stays in the model."""

    def __init__(self) -> None:
        self.nodes: dict[Node, NodeRecord] = {}
        self.constants: dict[Tensor, Value] = {}

    @property
    def size(self) -> int:
        """Bytes of all constants in memory that were read, also of those that were replaced."""
        return sum(tensor.nbytes for tensor in self.constants if not tensor.is_external)
