"""Rewrites that optimizers of ONNX graphs have, each as a tiny model: rows of ``lab/reach.md``."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One rewrite.

    Attributes:
        rewrite: description of the rewrite.
        model: a graph in ONNX text to which it applies.
        after: operators of the optimized graph, sorted.
        by: names of the patterns that do it; none for folding and merging.
        opset: operator set of the model.
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
        rewrite: description of the rewrite.
        reason: why xoptim does not do it.
    """

    rewrite: str
    reason: str


@dataclass(frozen=True)
class Theme:
    """Rewrites of one kind."""

    title: str
    rows: tuple[Row, ...]
    refused: tuple[Refused, ...] = ()
