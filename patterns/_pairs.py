"""Pairs of int8 weights whose products with uint8 activations fit 16 bits.

x86 CPUs without VNNI multiply by ``vpmaddubsw``: it adds the products of two neighbouring terms in
16 bits, and saturates. A matrix multiplication is exact on every CPU where no such sum can leave
the type, whatever the activations are.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from xoptim.match import GraphView

from ._folding import Array

MAX_PAIR: Final = 128
"""Largest sum of two neighbouring weights of one sign: 255 · 128 = 32,640 fits 16 bits."""


def largest_pairs(weights: Array) -> Array:
    """The largest sum of two neighbouring weights of one sign, by magnitude, of each column.

    Args:
        weights: of shape (terms, columns).
    """
    largest = np.zeros(weights.shape[1], weights.dtype)
    for part in (np.maximum(weights, 0), np.maximum(-weights, 0)):
        largest = np.maximum(largest, (part[:-1] + part[1:]).max(axis=0, initial=0))
    return largest


def term_orders(weights: Array) -> Iterator[Array]:
    """The weights of a convolution as matrices of shape (terms, outputs), in the orders in which
    kernels read the terms: channels before positions, and after them.

    Args:
        weights: of shape (outputs, channels of a group, ...).
    """
    outputs = len(weights)
    yield weights.reshape(outputs, -1).T
    yield np.moveaxis(weights, 1, -1).reshape(outputs, -1).T


def is_depthwise(weights: Array, group: int) -> bool:
    """Whether each output of a convolution has one channel of its own: such kernels add in 32
    bits.

    Args:
        weights: of shape (outputs, channels of a group, ...).
        group: number of groups.
    """
    return group == len(weights) and weights.shape[1] == 1


def pair_scales(g: GraphView, weights: Array) -> Array:
    """The smallest scale of each column of weights with which `are_exact` holds for the integers.

    0 where any scale will do. Rounding adds at most 1 to a sum.

    Args:
        g: the graph; see `GraphView.cpu`.
        weights: floats of shape (terms, columns).
    """
    if g.cpu == "vnni":
        return np.zeros(weights.shape[1], np.float32)
    scales: Array = (largest_pairs(weights) / (MAX_PAIR - 1)).astype(np.float32)
    return scales


def conv_pair_scales(g: GraphView, weights: Array, group: int) -> Array:
    """The same for each output of a convolution.

    Args:
        g: the graph; see `GraphView.cpu`.
        weights: floats of shape (outputs, channels of a group, ...).
        group: number of groups.
    """
    if is_depthwise(weights, group):
        return np.zeros(len(weights), np.float32)
    scales: Array = np.max([pair_scales(g, matrix) for matrix in term_orders(weights)], axis=0)
    return scales


def are_conv_exact(g: GraphView, integers: Array, group: int) -> bool:
    """The same as `are_exact` for the int8 weights of a convolution, of shape (outputs, channels of
    a group, ...).
    """
    orders = term_orders(integers)
    return is_depthwise(integers, group) or all(are_exact(g, matrix) for matrix in orders)


def are_exact(g: GraphView, integers: Array) -> bool:
    """Whether sums of uint8 · int8 are exact on the CPUs that the model is for.

    Args:
        g: the graph; see `GraphView.cpu`.
        integers: int8 weights of shape (terms, columns).
    """
    if g.cpu == "vnni":
        return True
    return bool((largest_pairs(integers.astype(np.int32)) <= MAX_PAIR).all())
