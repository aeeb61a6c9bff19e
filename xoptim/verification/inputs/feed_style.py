"""Styles of random values for the inputs of a model."""

from typing import Literal, NamedTuple, TypeAlias

Numbers: TypeAlias = Literal[
    "moderate", "wide", "far", "ties", "sorted", "single", "tiny", "offset", "holes", "odd", "range"
]


class Style(NamedTuple):
    """The kind of values that inputs get.

    Masks hide a tail in even runs and any positions in odd runs. ``gentle`` masks hide nothing, and
    gentle integers are small and not negative. Free ``numbers`` of each kind:

    - ``wide``: some are 0 and some large, as a Clip or a comparison needs to have an effect.
    - ``far``: many magnitudes.
    - ``ties``: a few different numbers, such as halves and 0.
    - ``sorted``: ascending in each row.
    - ``single``: one 1 in each row, else 0, as in a unit matrix.
    - ``tiny``: close to 0.
    - ``offset``: large and close to each other.
    - ``holes``: NaN and infinities among others.
    - ``odd``: as ``holes``, and the largest and smallest numbers of the type, 0 and -0.
    - ``range``: very large and very small.
    """

    run: int = 0
    gentle: bool = False
    numbers: Numbers = "moderate"
    free: frozenset[str] = frozenset()
    """Inputs whose values need not suit the nodes that read them: a Sqrt may get negative numbers,
    a mask any numbers.
    """
    landmarks: tuple[float, ...] = ()
    """Numbers near which a model may behave in another way; some free numbers are near them."""
    words: tuple[str, ...] = ()
    """Strings that the models contain."""
    texts: tuple[str, ...] = ()
    """The only strings that inputs get, if there are any: each once where there is room."""
    items: int = 2
    """The length of sequences."""
    uneven: bool = False
    """Whether the first axis without a name differs among the items of a sequence."""
    level: float | None = None
    """One number for all elements of the free inputs."""
    hides_rows: bool = True
    """Whether a mask may hide a complete row: rounding to 16 bits decides the results of it."""
    steers: bool = True
    """Whether integers may decide sizes or be divisors: large ones could fill the memory, and 0
    could end the process.
    """
