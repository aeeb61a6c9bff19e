"""From a torch module to an optimized ONNX model. torch is imported when the function is called,
not before.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import onnx

import xoptim
from xoptim.engine.options import OptimizationChanges
from xoptim.facts.assumptions import SizeFact
from xoptim.facts.dim_formulas import formula_of
from xoptim.facts.dims import LARGEST_SIZE
from xoptim.facts.dtypes import weakest
from xoptim.graph.sources import is_a
from xoptim.integrations.torch import verification as torch_verification
from xoptim.integrations.torch.runner import mode_fault
from xoptim.integrations.torch.verification import verify as verify

if TYPE_CHECKING:
    from torch import nn
    from torch.export import ExportedProgram

    from xoptim import OptimizationOptions, OptimizationReport, VerificationOptions


def to_onnx(
    module: nn.Module | ExportedProgram,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    input_names: Sequence[str] | None = None,
    dynamic_shapes: Any = None,
    options: OptimizationOptions | None = None,
    opset: int | None = None,
    verify: bool | VerificationOptions = False,
    **export_options: Any,
) -> onnx.ModelProto:
    """Export a module with torch's own exporter; returns the optimized model.

    The exporter's own optimizations are off, so that the patterns match the nodes that torch wrote;
    its shapes are kept in the model, and no shape inference is needed. The ranges of dimensions
    that it knows become assumptions. Switch the module to ``eval()`` first unless you need
    dropout and batch statistics.

    Args:
        module: the module to export.
        args: positional inputs to trace it with, one tensor or a tuple.
        kwargs: the same by name.
        input_names: names of the graph inputs, in order.
        dynamic_shapes: dimensions that vary, as `torch.export.export` takes them.
        options: of the optimizer; ``patterns=None`` leaves folding, merging and cleaning.
        opset: version of the standard operators; torch's choice by default.
        verify: compare the result with the module itself, as `verify` does.
        export_options: of `torch.onnx.export` (``custom_translation_table``, ...).

    Raises:
        ImportError: when torch or onnxscript, which its exporter needs, is not installed.
        DifferentModelError, NotVerifiedError: when the result is not found equal, see `verify`.
    """
    program = _exported(
        module,
        args,
        kwargs,
        input_names=None if input_names is None else list(input_names),
        dynamic_shapes=dynamic_shapes,
        opset_version=opset,
        **export_options,
    )
    model: onnx.ModelProto = program.model_proto
    base = options or xoptim.OptimizationOptions()
    settings = replace(base, assume=(*ranges_of(program), *base.assume))
    if verify is False:
        return xoptim.optimize(model, settings)
    checks = xoptim.VerificationOptions() if verify is True else verify
    return _verified(module, model, (args, kwargs), settings, checks)


def _exported(module: Any, args: Any, kwargs: Mapping[str, Any] | None, **options: Any) -> Any:
    """The program that torch's exporter makes, without its own optimizations.

    Raises `ImportError` when a package is missing.
    """
    try:
        import onnxscript  # noqa: F401
        import torch
    except ImportError as error:
        advice = f"to_onnx needs {error.name}: pip install 'xoptim[torch]'"
        raise ImportError(advice, name=error.name) from error
    return torch.onnx.export(
        module,
        args if isinstance(args, tuple) else (args,),
        kwargs=None if kwargs is None else dict(kwargs),
        dynamo=True,
        **{"verbose": False, "optimize": False, **options},
    )


def _verified(
    module: Any,
    exported: onnx.ModelProto,
    arguments: tuple[Any, Any],
    options: OptimizationOptions,
    checks: VerificationOptions,
) -> onnx.ModelProto:
    """An optimized export that computes what the module does."""
    if is_a(module, "torch", "Module") and (fault := mode_fault(module)):
        refusal = xoptim.VerificationReport("not verified", fault, cause="run")
        raise xoptim.NotVerifiedError(refusal, exported)
    reports: list[OptimizationReport] = []
    # the optimization compares with the export, and drops a rewrite that is wrong
    optimized = xoptim.optimize(exported, options, verify=checks, report=reports.append)
    # the kernels of torch round in another order, even where each rewrite is exact
    exactness = weakest((reports[0].exactness, "rounding"))
    verification = replace(checks, exactness=exactness, assume=(*options.assume, *checks.assume))
    report = torch_verification.verify(
        module, optimized, *arguments, verification, exported=exported
    )
    if report.status == "different":
        raise xoptim.DifferentModelError(report, optimized)
    if not report.ok:
        raise xoptim.NotVerifiedError(report, optimized)
    return optimized


def ranges_of(program: Any) -> list[str]:
    """The ranges that ``torch.export`` knows for dimensions of an ``ONNXProgram``, as assumptions.

    A range from 0 to infinity, which torch gives to a dimension without bounds, is not among them.
    """
    exported = program.exported_program
    if exported is None:
        return []
    user_inputs = {*exported.graph_signature.user_inputs}
    placeholders = (
        node.meta.get("val")
        for node in exported.graph.nodes
        if node.op == "placeholder" and node.name in user_inputs
    )
    tensors = [value for value in placeholders if hasattr(value, "shape")]
    inputs = list(program.model_proto.graph.input)
    assumptions: dict[str, None] = {}
    for tensor, value in zip(tensors, inputs, strict=True) if len(tensors) == len(inputs) else ():
        for size, dim in zip(tensor.shape, value.type.tensor_type.shape.dim, strict=False):
            bounds = (
                None if isinstance(size, int) else exported.range_constraints.get(size.node.expr)
            )
            if bounds is not None and dim.dim_param and formula_of(dim.dim_param) is None:
                upper = int(bounds.upper) if bounds.upper < LARGEST_SIZE else None
                assumptions |= dict.fromkeys(
                    SizeFact(max(int(bounds.lower), 0), upper).texts(dim.dim_param)
                )
    return list(assumptions)


@contextmanager
def optimized_exports(
    options: OptimizationOptions | None = None,
    *,
    verify: bool | VerificationOptions = False,
    **changes: Unpack[OptimizationChanges],
) -> Iterator[None]:
    """Optimize what ``torch.onnx.export(..., dynamo=True)`` returns and writes, while the block
    runs.

    For code that calls the exporter and cannot be changed; ``xoptim.optimize(program)`` does the
    same to one program. Exports of all threads are optimized, except with ``dynamo=False``.

    Args:
        options: of the optimization.
        verify: as for `xoptim.optimize`: compare the result with what torch exported.
        **changes: fields of `OptimizationOptions` to set.

    Raises:
        ImportError: when torch is not installed.
        XoptimError: as `xoptim.optimize`; a file is left as torch has written it.
    """
    import torch

    original: Any = torch.onnx.export
    parameters = inspect.signature(original)

    @functools.wraps(original)
    def export(*args: Any, **kwargs: Any) -> Any:
        program = original(*args, **kwargs)
        if not isinstance(program, torch.onnx.ONNXProgram):
            return program
        settings = replace(options or xoptim.OptimizationOptions(), **changes)
        settings = replace(settings, assume=(*ranges_of(program), *settings.assume))
        xoptim.optimize(program, settings, verify=verify)
        call = parameters.bind(*args, **kwargs)
        call.apply_defaults()
        if (values := call.arguments)["f"] is not None:
            program.save(
                values["f"],
                include_initializers=values["export_params"],
                keep_initializers_as_inputs=values["keep_initializers_as_inputs"],
                external_data=values["external_data"],
            )
        return program

    torch.onnx.export = export
    try:
        yield
    finally:
        torch.onnx.export = original
