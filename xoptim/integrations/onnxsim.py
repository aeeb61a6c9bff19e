"""xoptim where other code calls onnxsim, as rf-detr does when it exports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

import onnx

import xoptim
from xoptim.integrations.stand_ins import refuse, standing_in, warn_of_ignored

if TYPE_CHECKING:
    from xoptim import OptimizationOptions
    from xoptim.api.optimizing import OptimizeChanges

_UNSUPPORTED: Final = (
    *("overwrite_input_shapes", "input_shapes", "unused_output", "target_opset_version"),
    *("custom_rewriter", "function_rewrite_rules", "extra_optimizers"),
)
"""Arguments of ``simplify`` that change the model in ways that callers rely on."""

_HONORED: Final = frozenset(
    {"input_data", "output_path", "check_rtol", "check_atol", "skip_shape_inference"}
)
"""Arguments that have their effect here; skipped inference of shapes is never seen in a result."""

_DEFAULTS: Final[Mapping[str, Any]] = {
    "perform_optimization": True,
    "initializers_as_constants": True,
    "import_custom_schemas": True,
    "input_fill": "random",
    "gemm_fusion_backend": "ort_cpu",
}
"""Defaults of the arguments whose default is neither None nor False."""

POSITIONAL: Final = (
    *("perform_optimization", "skip_fuse_bn", "overwrite_input_shapes", "test_input_shapes"),
    *("skipped_optimizers", "skip_constant_folding", "skip_shape_inference", "input_data"),
    *("dynamic_input_shape", "custom_lib", "include_subgraph", "unused_output"),
    *("tensor_size_threshold", "mutable_initializer"),
)
"""Arguments after ``check_n`` that callers may give by position, in the order of onnxsim 0.8."""


@contextmanager
def in_place_of_onnxsim(
    options: OptimizationOptions | None = None, **changes: Unpack[OptimizeChanges]
) -> Iterator[None]:
    """Let ``onnxsim.simplify(model)`` optimize with xoptim while the block runs, in all threads.

    ``simplify`` returns the model, and whether it may be used. With ``check_n`` above 0, the model
    is verified, with the values of ``input_data`` if there are any, and may be used if it was found
    equal.
    ``output_path`` is written. Arguments that change inputs, outputs or the operator set raise
    `ValueError`: use `xoptim.prepare`, or ``opset`` here. One warning names other arguments, which
    have no effect. onnxsim need not be installed.

    Args:
        options: of the optimization.
        **changes: as for `xoptim.optimize`, such as ``patterns="default+onnxruntime"``.
    """

    def simplify(model: Any, check_n: int = 0, *positional: Any, **arguments: Any) -> Any:
        arguments |= dict(zip(POSITIONAL, positional, strict=False))
        refuse("onnxsim", {name: arguments.get(name) for name in _UNSUPPORTED})
        warn_of_ignored("onnxsim", _ignored(arguments))
        settings: OptimizeChanges = {**changes}
        if check_n and "verify" not in settings:
            settings["verify"] = xoptim.VerificationOptions(
                feeds=arguments.get("input_data") or {},
                rtol=arguments.get("check_rtol"),
                atol=arguments.get("check_atol"),
            )
        proto = model if isinstance(model, onnx.ModelProto) else onnx.load(model)
        result, is_equal = _optimized(proto, options, settings)
        if arguments.get("output_path"):
            xoptim.save(result, Path(arguments["output_path"]))
        return result, is_equal

    with standing_in("onnxsim", simplify=simplify):
        yield


def _ignored(arguments: Mapping[str, Any]) -> list[str]:
    return [
        name
        for name, value in arguments.items()
        if name not in (*_HONORED, *_UNSUPPORTED) and (value or None) != _DEFAULTS.get(name)
    ]


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
