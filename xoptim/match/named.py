"""Operators by name, for the ``g.op`` of patterns and builders."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any


class OperatorsByName:
    """``op.Relu`` is ``op["Relu"]``, for names that Python allows."""

    __slots__ = ()

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type.startswith("__"):
            raise AttributeError(op_type)
        return self[op_type]

    @abstractmethod
    def __getitem__(self, op_type: str) -> Callable[..., Any]:
        """An operator of any name, such as ``class``."""
