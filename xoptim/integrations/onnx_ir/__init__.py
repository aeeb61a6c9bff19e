"""A pass of onnx_ir that optimizes a model.

It composes with the passes of onnx_ir and of others.
"""

from typing import Unpack

import onnx_ir as ir
from onnx_ir.passes import FunctionalPass, PassResult

from xoptim import OptimizationOptions, OptimizationReport, VerificationOptions
from xoptim.api.optimizing import OptimizationChanges, optimize


class OptimizePass(FunctionalPass):
    """Optimizes an ``onnx_ir.Model``.

    The given model is left unchanged, and the result is a new one. The result of the pass says
    whether the model was modified, as a ``PassManager`` that stops early requires.

    Args:
        options: of the optimization.
        verify: as for `xoptim.optimize`: compare the result with the given model in onnxruntime.
        **changes: fields of `OptimizationOptions` to set, such as
            ``patterns="default+onnxruntime"``.

    Raises:
        XoptimError: a call raises what `xoptim.optimize` raises; ``onnx_ir.passes.Sequential``
            wraps it in a ``PassError``.
    """

    def __init__(
        self,
        options: OptimizationOptions | None = None,
        *,
        verify: bool | VerificationOptions = False,
        **changes: Unpack[OptimizationChanges],
    ) -> None:
        self.options = options
        self.verify = verify
        self.changes = changes
        # the `OptimizationReport` of the last call, ``None`` before the first one
        self.report: OptimizationReport | None = None

    def call(self, model: ir.Model) -> PassResult:
        """Optimize a model."""
        result = optimize(
            model, self.options, verify=self.verify, report=self._keep, **self.changes
        )
        changes = self.report is None or self.report.changes
        return PassResult(result, modified=changes or result.opset_imports != model.opset_imports)

    def _keep(self, report: OptimizationReport) -> None:
        self.report = report
