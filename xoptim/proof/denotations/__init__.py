"""What operators compute, element by element; each module registers its operators."""

from xoptim.proof.denotations import (
    arithmetic,
    attention,
    casts,
    control,
    functions,
    fused,
    movement,
    padding,
    qlinear,
    quantization,
    recurrent,
    resizing,
    selection,
    sequences,
    sums,
    windows,
)

__all__ = [
    "arithmetic",
    "attention",
    "casts",
    "control",
    "functions",
    "fused",
    "movement",
    "padding",
    "qlinear",
    "quantization",
    "recurrent",
    "resizing",
    "selection",
    "sequences",
    "sums",
    "windows",
]
