"""Convolutions of a tensor that is scaled and shifted before."""

from collections.abc import Mapping
from typing import Any

from xoptim.match import GraphView

from .._channels import weigh_inputs
from .._folding import Array, constant, doubles, rounded


def pads(attributes: Mapping[str, Any]) -> bool:
    """Whether a convolution of these attributes may add zeros around its input."""
    return any(attributes.get("pads", ())) or attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID")


def absorbed(
    g: GraphView, weight: str, bias: str, group: int, affine: tuple[Array, Array], size: Array | None = None
) -> tuple[Array, Array]:
    """Weights and bias of a Conv that computes an affine map of its input on the way.

    Args:
        g: the graph.
        weight: constant weights, finite.
        bias: constant bias, or an empty name.
        group: attribute of the Conv.
        affine: factor and summand of each input channel; the summands are 0 where the Conv pads.
        size: magnitude of the terms of each summand, where these may cancel.

    Raises:
        Declined: when a new constant leaves the range of its type, or is a sum that cancels.
    """
    scaled, shifted = (weigh_inputs(g, weight, each, group) for each in affine)
    given, dtype = doubles(g, bias), constant(g, weight).dtype
    shift = shifted.reshape(len(shifted), -1).sum(axis=1)
    terms = shift
    if size is not None:
        terms = abs(weigh_inputs(g, weight, size, group)).reshape(len(shifted), -1).sum(axis=1)
    return rounded(scaled, dtype, summed=tuple(range(1, scaled.ndim))), rounded(given + shift, dtype, terms=(given, terms))
