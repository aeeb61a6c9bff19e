"""Pairs of int8 weights whose products with uint8 activations fit into int16.

x86 CPUs without VNNI multiply with the instruction ``vpmaddubsw``. It adds the products of two
neighbouring terms in int16, and saturates. A matrix multiplication is exact on every CPU if no such
sum can exceed int16, whatever the activations are.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from xoptim.match import GraphView

from ._folding import Array

MAX_PAIR: Final = 128
"""Largest sum of two neighbouring weights of one sign: 255 · 128 = 32,640 fits into int16."""


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
    """The weights of a convolution as matrices (terms, outputs), in both orders of their terms.

    Kernels read the channels before the positions of the window, or after them.

    Args:
        weights: of shape (outputs, channels of a group, ...).
    """
    outputs = len(weights)
    yield weights.reshape(outputs, -1).T
    yield np.moveaxis(weights, 1, -1).reshape(outputs, -1).T


def is_depthwise(weights: Array, group: int) -> bool:
    """Whether a convolution is depthwise, with one output per channel: its kernels add in int32.

    Args:
        weights: of shape (outputs, channels of a group, ...).
        group: number of groups.
    """
    return group == len(weights) and weights.shape[1] == 1


def pair_scales(g: GraphView, weights: Array) -> Array:
    """The smallest scale of each column of weights with which the integers are exact (`are_exact`).

    0 if any scale is exact. Rounding adds at most 1 to the sum of two integers.

    Args:
        g: the graph; see `GraphView.cpu`.
        weights: floats of shape (terms, columns).
    """
    if g.cpu == "vnni":
        return np.zeros(weights.shape[1], np.float32)
    scales: Array = (largest_pairs(weights) / (MAX_PAIR - 1)).astype(np.float32)
    return scales


def conv_pair_scales(g: GraphView, weights: Array, group: int) -> Array:
    """The smallest scale of each output of a convolution with which the integers are exact.

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
    """`are_exact` for weights of a convolution, of shape (outputs, channels of a group, ...)."""
    orders = term_orders(integers)
    return is_depthwise(integers, group) or all(are_exact(g, matrix) for matrix in orders)


def are_exact(g: GraphView, integers: Array) -> bool:
    """Whether sums of products of uint8 and int8 are exact on the target CPU.

    Args:
        g: the graph; see `GraphView.cpu`.
        integers: int8 weights of shape (terms, columns).
    """
    if g.cpu == "vnni":
        return True
    return bool((largest_pairs(integers.astype(np.int32)) <= MAX_PAIR).all())
