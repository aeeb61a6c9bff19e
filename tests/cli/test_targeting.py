"""Options that contradict a target."""

import click
import pytest
from xoptim.cli.targeting import check_target


@pytest.mark.parametrize(
    ("name", "providers"),
    [
        ("", ("cuda",)),
        ("webgpu", ("cpu",)),
        ("webgpu", ("cpu", "WebGpuExecutionProvider")),
        ("tensorrt", ("NvTensorRTRTXExecutionProvider",)),
        ("onnx", ("cuda",)),
    ],
)
def test_providers_that_go_with_a_target(name: str, providers: tuple[str, ...]) -> None:
    check_target(name, providers)


def test_a_provider_of_another_kind() -> None:
    with pytest.raises(click.UsageError, match="--provider qnn runs the model elsewhere than --target webgpu"):
        check_target("webgpu", ("cpu", "qnn"))


def test_operators_of_onnxruntime() -> None:
    check_target("webgpu", (), "int4")
    check_target("qnn", (), "float16")
    with pytest.raises(click.UsageError, match="which qnn does not run"):
        check_target("qnn", (), "int4")
