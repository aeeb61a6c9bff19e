"""xoptim where other code calls onnxsim, as rf-detr does when it exports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

import onnx

import xoptim
from xoptim.integrations.stand_ins import standing_in

if TYPE_CHECKING:
    from xoptim import OptimizationOptions
    from xoptim.api.optimizing import OptimizeChanges

_UNSUPPORTED: Final = (
    *("overwrite_input_shapes", "input_shapes", "unused_output", "target_opset_version"),
    *("custom_rewriter", "function_rewrite_rules", "extra_optimizers"),
)
"""Arguments of ``simplify`` that change the model in ways that callers rely on."""


@contextmanager
def in_place_of_onnxsim(
    options: OptimizationOptions | None = None, **changes: Unpack[OptimizeChanges]
) -> Iterator[None]:
    """Let ``onnxsim.simplify(model)`` optimize with xoptim while the block runs, in all threads.

    It returns the model, and whether it may be used. With ``check_n`` above 0, the model is
    verified, with the values of ``input_data`` if there are any, and may be used if it was found
    equal.
    ``output_path`` is written. Arguments that change inputs, outputs or the operator set raise
    `ValueError`: use `xoptim.prepare`, or ``opset`` here. Other arguments have no effect. onnxsim
    need not be installed.

    Args:
        options: of the optimization.
        **changes: as for `xoptim.optimize`, such as ``patterns="default+onnxruntime"``.
    """

    def simplify(model: Any, check_n: int = 0, *_: Any, **arguments: Any) -> Any:
        for name in _UNSUPPORTED:
            if arguments.get(name):
                raise ValueError(f"xoptim in place of onnxsim does not support {name}")
        settings: OptimizeChanges = {**changes}
        if check_n and "verify" not in settings:
            feeds = arguments.get("input_data") or {}
            settings["verify"] = xoptim.VerificationOptions(feeds=feeds)
        proto = model if isinstance(model, onnx.ModelProto) else onnx.load(model)
        result, is_equal = _optimized(proto, options, settings)
        if arguments.get("output_path"):
            xoptim.save(result, Path(arguments["output_path"]))
        return result, is_equal

    with standing_in("onnxsim", simplify=simplify):
        yield


def _optimized(
    model: onnx.ModelProto, options: OptimizationOptions | None, changes: OptimizeChanges
) -> tuple[onnx.ModelProto, bool]:
    """The result, and whether it may be used; the original where the result differs."""
    try:
        return xoptim.optimize(model, options, **changes), True
    except xoptim.NotVerifiedError as error:
        return error.model, False
    except xoptim.DifferentModelError:
        return model, False


__all__ = ["in_place_of_onnxsim"]
