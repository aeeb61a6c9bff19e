"""Public names that go with the next major version: until then they work, and warn."""

import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def deprecated(
    function: Callable[Parameters, Result], old: str, new: str
) -> Callable[Parameters, Result]:
    """Return a function that calls another one, and warns the caller that its name goes.

    Args:
        function: what is called.
        old: the public name that goes, such as ``"xoptim.save_proto"``.
        new: the name to use instead.
    """

    @wraps(function)
    def warn_and_call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        warnings.warn(f"{old} goes with version 2: use {new}", DeprecationWarning, stacklevel=2)
        return function(*args, **kwargs)

    warn_and_call.__name__ = warn_and_call.__qualname__ = old.rpartition(".")[2]
    return warn_and_call
