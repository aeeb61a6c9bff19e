"""A pass of Olive. Olive is imported with this module, and only with it."""

from pathlib import Path
from typing import Any

from olive.model import ONNXModelHandler
from olive.passes import Pass
from olive.passes.onnx.common import get_external_data_config, model_proto_to_olive_model
from olive.passes.pass_config import PassConfigParam

from xoptim import OptimizationOptions, VerificationOptions, optimize


class XoptimOptimizer(Pass):  # type: ignore[misc]  # Olive has no types
    """Optimizes an ONNX model by patterns for the execution provider of the workflow, and verifies
    the result on the CPU.

    A package configuration names the class (``"module_path":
    "xoptim.integrations.olive.XoptimOptimizer"``).
    """

    @classmethod
    def _default_config(cls, accelerator_spec: Any) -> dict[str, Any]:
        return {
            "patterns": PassConfigParam(
                type_=str, default_value="default", description="Selection of patterns."
            ),
            "drop": PassConfigParam(
                type_=list[str], default_value=[], description="Patterns to drop."
            ),
            "opset": PassConfigParam(
                type_=int | str | None,
                default_value=None,
                description="Opset to raise the model to.",
            ),
            "verify": PassConfigParam(
                type_=bool,
                default_value=True,
                description="Verify the result against the original model.",
            ),
            **get_external_data_config(),
        }

    def _run_for_config(
        self, model: ONNXModelHandler, config: Any, output_model_path: str
    ) -> ONNXModelHandler:
        """Optimize the model of a handler; returns the handler of the result.

        Raises:
            XoptimError: as `xoptim.optimize` raises it.
        """
        provider = (
            "cuda" if self.accelerator_spec.execution_provider == "CUDAExecutionProvider" else "cpu"
        )
        options = OptimizationOptions(
            patterns=config.patterns, drop=tuple(config.drop), opset=config.opset, provider=provider
        )
        proto = optimize(
            model.model_path, options, verify=VerificationOptions() if config.verify else False
        )
        target = Path(output_model_path)
        if target.suffix != ".onnx":
            target /= Path(model.model_path).name
        return model_proto_to_olive_model(proto, target, config)
