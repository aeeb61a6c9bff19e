"""Rewrites that optimizers of ONNX graphs have, each as a tiny model: rows of ``lab/reach.md``."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One rewrite.

    Attributes:
        rewrite: in words.
        model: a graph in ONNX text in which it applies.
        after: operators of the optimized graph, sorted.
        by: patterns that do it; none where constants are folded.
        opset: of the model.
    """

    rewrite: str
    model: str
    after: str
    by: tuple[str, ...]
    opset: int = 18


@dataclass(frozen=True)
class Refused:
    """A rewrite that xoptim does not do.

    Attributes:
        rewrite: in words.
        reason: why not.
    """

    rewrite: str
    reason: str


@dataclass(frozen=True)
class Theme:
    """Rewrites of one kind."""

    title: str
    rows: tuple[Row, ...]
    refused: tuple[Refused, ...] = ()
