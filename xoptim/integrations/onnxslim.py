"""xoptim where other code calls onnxslim, as ultralytics does for ``simplify=True``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import xoptim
from xoptim.graph.sources import Source
from xoptim.integrations.stand_ins import standing_in

if TYPE_CHECKING:
    from xoptim import OptimizationOptions
    from xoptim.api.optimizing import OptimizeChanges


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

    with standing_in("onnxslim", slim=slim):
        yield


__all__ = ["in_place_of_onnxslim"]
