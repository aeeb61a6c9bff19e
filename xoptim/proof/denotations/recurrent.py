"""Recurrent operators as functions of whole tensors, the same one for equivalent calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from xoptim.facts.dims import before_wrapping
from xoptim.facts.dtypes import is_float
from xoptim.proof.calls import Call, as_whole, denotes
from xoptim.proof.elements import ZERO, Element
from xoptim.proof.indices import Unproved
from xoptim.proof.tensors import Indices, Items, Tensor, require_equal

_LENGTHS: Final = 4
"""Index of the input with the sequence lengths."""
_STATES: Final = {"LSTM": (5, 6), "GRU": (5,), "RNN": (5,)}
"""Indices of the inputs with the initial states, which are 0 where they are omitted."""


@denotes("LSTM", "GRU", "RNN")
def recurrent(call: Call) -> list[Tensor] | None:
    """A function of whole tensors, with zeros for omitted initial states.

    Over real numbers and without sequence lengths, ``reverse`` is ``forward`` on the reversed
    sequence.
    """
    x = call.operand(0)
    places = _STATES[call.node.op_type]
    if x.rank != 3 or not is_float(x.dtype) or call.opset < 7:
        return None
    operands = [*call.operands, *[None] * (max(places) + 1 - len(call.operands))]
    for place in places:
        operands[place] = _states(call, x, operands[place])
    direction = call.attribute("direction", "forward")
    has_one_order = direction in ("forward", "reverse") and operands[_LENGTHS] is None
    if call.case.is_exact or not has_one_order:
        return as_whole(replace(call, operands=operands))
    axis = 1 if call.attribute("layout", 0) else 0
    if direction == "forward":
        return as_whole(replace(call, operands=operands), ("direction",))
    operands[0] = _reversed(x, axis)
    results = as_whole(replace(call, operands=operands), ("direction",))
    return [_reversed(results[0], axis), *results[1:]]


def _states(call: Call, x: Tensor, states: Tensor | None) -> Tensor:
    """The initial states, zeros by default.

    A size that was converted to another integer type may have wrapped around. The operator accepts
    one shape only, so the states have it if the original requires the same.
    """
    if states is None:
        return _zeros(call, x)
    if all(before_wrapping(size) == size for size in states.shape):
        return states
    zeros = _zeros(call, x)
    if states.rank != zeros.rank or not call.requires("states", states.shape, zeros.shape):
        return states
    return Tensor(zeros.shape, states.dtype, states.at)


def _zeros(call: Call, x: Tensor) -> Tensor:
    """Initial states of 0: ``(directions, batch, hidden)``, or batch first with ``layout``."""
    weights = call.operand(2)  # (directions, gates * hidden, hidden)
    if isinstance(weights, Items) or weights.rank != 3:
        raise Unproved("weights of another rank")
    shape = [weights.shape[0], x.shape[1], weights.shape[2]]
    if call.attribute("layout", 0):
        shape = [x.shape[0], weights.shape[0], weights.shape[2]]
    hidden = call.attribute("hidden_size")
    if hidden is not None:
        require_equal(weights.shape[2], hidden, or_one=False)
    return Tensor(shape, x.dtype, lambda _: ZERO)


def _reversed(x: Tensor, axis: int) -> Tensor:
    """The elements in the opposite order along an axis."""
    if not x.rank:  # an omitted result
        return x

    def read(indices: Indices) -> Element:
        last = x.shape[axis] - 1
        return x.at([*indices[:axis], last - indices[axis], *indices[axis + 1 :]])

    return Tensor(x.shape, x.dtype, read)
