"""Inputs and outputs of a session, and the values that they take."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

Value: TypeAlias = "np.ndarray | list[Any] | dict[Any, Any] | None"
"""Values of inputs and outputs of a model: tensor, sequence, map, or the empty optional."""


class Port(NamedTuple):
    """An input or output of a session: its name, and its type such as ``seq(tensor(float))``."""

    name: str
    type: str
