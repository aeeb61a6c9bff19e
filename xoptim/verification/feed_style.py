"""Styles of random values for the inputs of a model."""

from typing import Literal, NamedTuple, TypeAlias

Numbers: TypeAlias = Literal[
    "moderate", "wide", "far", "ties", "sorted", "single", "tiny", "offset", "holes", "odd", "range"
]


class Style(NamedTuple):
    """The range of the values.

    Masks hide a tail in run 0 of the assignments, then anything; ``gentle`` masks hide nothing, and
    gentle integers are small and not negative. Free ``numbers`` that are ``wide`` are 0 in some
    places and large in others, as a Clip or a comparison needs them to have an effect; ``far`` ones
    have many magnitudes; ``ties`` are few different numbers, halves and zeros; ``sorted`` ones
    ascend in each row, and of ``single`` ones a row has one 1 and zeros, as a unit matrix has;
    ``tiny`` ones are close to 0, and those with an ``offset`` close to each other; ``holes`` are
    NaN and infinities; those of a ``range`` are very large and very small ones of the type; ``odd``
    numbers are, besides, the largest and smallest ones of the type, and
    -0.
    """

    run: int = 0
    gentle: bool = False
    numbers: Numbers = "moderate"
    free: frozenset[str] = frozenset()
    """Inputs that do not follow what their readers prefer: negative numbers for a Sqrt, any number
    for a mask.
    """
    landmarks: tuple[float, ...] = ()
    """Numbers next to which a model may behave in another way.

    Some of the free numbers are near them.
    """
    words: tuple[str, ...] = ()
    """Strings that the models contain."""
    texts: tuple[str, ...] = ()
    """All that an input of strings gets, if there are any: each once where there is room."""
    items: int = 2
    """The length of sequences."""
    uneven: bool = False
    """Whether the first axis without a name differs among the items of a sequence."""
    level: float | None = None
    """One number for all elements of the free inputs."""
    hides_rows: bool = True
    """Whether a mask may hide a whole row.

    In 16 bits, rounding decides what is computed from it.
    """
    steers: bool = True
    """Whether integers may decide sizes, so that large ones could fill the memory, or divisors, so
    that 0 ends the process.
    """
