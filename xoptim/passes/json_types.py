"""The types of JSON documents about passes."""

from typing import TypedDict

from xoptim.passes.blocks.finding import Form


class UnfoldedJson(TypedDict):
    """Nodes that were not folded because of the size of their results.

    Attributes:
        operators: number of nodes by operator.
        bytes: bytes that folding them would add.
        allowed_bytes: bytes that folding may add.
    """

    operators: dict[str, int]
    bytes: int
    allowed_bytes: int


class RepetitionJson(TypedDict):
    """A block that repeats.

    Attributes:
        name: the scope that its copies share, or its operators.
        times: number of copies.
        nodes: number of nodes of each copy.
        form: whether copies are written as nodes, or as calls of a local function.
    """

    name: str
    times: int
    nodes: int
    form: Form
