import pytest

from xoptim import targets
from xoptim.verification.plugins import PLUGINS


def test_targets_by_name() -> None:
    names = [each.name for each in targets.every()]
    assert names == [
        "cpu",
        "cuda",
        "openvino",
        "webgpu",
        "qnn",
        "tensorrt",
        "onnx",
        "webnn",
        "coreml",
        "nnapi",
    ]
    assert all(targets.named(name.upper()).name == name for name in names)


def test_an_unknown_target_is_one_line_with_a_suggestion() -> None:
    with pytest.raises(
        targets.UnknownTargetError, match=r"^there is no target 'webgqu'; did you mean 'webgpu'\?$"
    ):
        targets.named("webgqu")
    with pytest.raises(
        targets.UnknownTargetError, match=r"^there is no target 'x'; there are cpu, cuda, "
    ):
        targets.named("x")


def test_each_plugin_is_a_target() -> None:
    assert {each.name for each in targets.every() if each.plugin is not None} == set(PLUGINS)
    assert all(targets.named(name).full_provider == each.provider for name, each in PLUGINS.items())
    assert targets.named("cuda").full_provider == "CUDAExecutionProvider"
    assert targets.named("webnn").full_provider == "webnn"


def test_how_to_install() -> None:
    assert targets.named("qnn").install == "pip install 'xoptim[qnn]'"
    assert targets.named("cuda").install == "pip install onnxruntime-gpu"
    assert targets.named("coreml").install == ""
    assert targets.named("cpu").is_installed
    assert targets.named("nnapi").is_installed
