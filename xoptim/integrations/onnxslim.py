"""xoptim where other code calls onnxslim, as ultralytics does for ``simplify=True``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Unpack
from unittest.mock import patch

import xoptim
from xoptim.graph.sources import Source

if TYPE_CHECKING:
    from xoptim import OptimizationOptions
    from xoptim.api.optimizing import OptimizeChanges

_NAME: Final = "onnxslim"


@contextmanager
def in_place_of_onnxslim(
    options: OptimizationOptions | None = None, **changes: Unpack[OptimizeChanges]
) -> Iterator[None]:
    """Let ``onnxslim.slim(model)`` optimize with xoptim while the block runs, in all threads.

    Arguments of ``slim`` other than the model and the file to write have no effect. onnxslim need
    not be installed, unless the caller looks for its version.

    Args:
        options: of the optimization.
        **changes: as for `xoptim.optimize`, such as ``verify=True``.
    """

    def slim(model: Any, output_model: str | None = None, *_: Any, **__: Any) -> Any:
        source = Source(model)
        result = xoptim.optimize(source.proto, options, **changes)
        if output_model is None:
            return result
        xoptim.save(result, Path(output_model))
        return None

    module = ModuleType(_NAME)
    module.slim = slim  # type: ignore[attr-defined]
    module.__version__ = f"xoptim {xoptim.__version__}"  # type: ignore[attr-defined]
    with patch.dict(sys.modules, {_NAME: module}):
        yield


__all__ = ["in_place_of_onnxslim"]
