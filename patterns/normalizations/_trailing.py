"""Axes and constants of normalizations over the last axes."""

from collections.abc import Sequence

import numpy as np

from xoptim.facts.errors import Declined
from xoptim.facts.info import Shape
from xoptim.match import GraphView

from .._folding import Array, constant, doubles, rounded
from .._shapes import uniform_value


def trailing_shape(g: GraphView, x: str, axes: Sequence[int]) -> Shape | None:
    """Lengths of the last axes when a reduction is over just these, else ``None``."""
    shape = g.try_infer_shape(x)
    if shape is None or not axes:
        return None
    first = len(shape) - len(axes)
    if sorted(axis % len(shape) for axis in axes) != list(range(first, len(shape))):
        return None
    return shape[first:]


def same_trailing(g: GraphView, parameter: str, like: str, x: str) -> bool:
    """Whether a parameter of the normalized tensor x has the shape of another one, or is a constant that broadcasts to it."""
    given, wanted, rank = g.try_infer_shape(parameter), g.try_infer_shape(like), g.info(x).rank
    if given is None or wanted is None or rank is None or len(wanted) > rank:
        return False
    if given == wanted:
        return True
    if not g.is_constant(parameter) or len(given) > rank:
        return False
    aligned = given[max(0, len(given) - len(wanted)) :]
    leading = given[: len(given) - len(aligned)]
    return all(d == 1 for d in leading) and all(d in (1, w) for d, w in zip(aligned[::-1], wanted[::-1], strict=False))


@np.errstate(all="ignore")
def multiplied(g: GraphView, parameter: str, factor: str) -> Array | str:
    """A parameter of a normalization times a factor that `same_trailing` accepts.

    Returns:
        A constant; or the factor when either of them is computed and the parameter is all ones.

    Raises:
        Declined: when neither applies, or the constant leaves the range of its type.
    """
    if not g.is_constant(factor) or not g.is_constant(parameter):
        number = uniform_value(g, parameter)
        if number is None or number != 1 or g.try_infer_shape(factor) != g.try_infer_shape(parameter):
            raise Declined(f"{factor!r} or {parameter!r} is not constant, and the scale is not 1")
        return factor
    given = constant(g, parameter)
    return rounded(np.asarray(doubles(g, parameter) * doubles(g, factor)).reshape(given.shape), given.dtype)


@np.errstate(all="ignore")
def shifted(g: GraphView, bias: str, shift: str, like: str) -> Array | str:
    """A bias of a normalization, or none, plus a shift that `same_trailing` accepts, as a constant of the shape of the scale.

    It is the shift itself when that is computed and there is no bias.

    Raises:
        Declined: when the shift is computed and there is a bias, or the constant leaves the range of its type.
    """
    if not bias and not g.is_constant(shift):
        return shift
    shape = g.static_shape(like)
    if shape is None or not g.is_constant(shift) or (bias and not g.is_constant(bias)):
        raise Declined("the bias or the shift is not constant, or their shape is unknown")
    given, more = doubles(g, bias), doubles(g, shift)
    total = np.asarray(given + more)
    scale = doubles(g, like) if g.is_constant(like) else 0.0
    found = rounded(total, constant(g, shift).dtype, terms=(given, more), beside=scale)
    return np.broadcast_to(found.reshape(total.shape[-len(shape) :]), shape)
