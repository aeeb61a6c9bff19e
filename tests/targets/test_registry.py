import pytest

from xoptim import targets
from xoptim.verification.runs.plugins import PLUGINS


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
    with pytest.raises(targets.UnknownTargetError, match=r"'webgqu'; .*'webgpu'\?$"):
        targets.named("webgqu")
    with pytest.raises(targets.UnknownTargetError, match=r"'x'; .* cpu, cuda, "):
        targets.named("x")


@pytest.mark.parametrize("name", ["tpu", "gpu", "npu", "ort"])
def test_a_short_name_with_one_wrong_letter_is_not_taken_for_another(name: str) -> None:
    with pytest.raises(targets.UnknownTargetError) as error:
        targets.named(name)
    assert "did you mean" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "listed"),
    [("GPU", "cuda, webgpu or tensorrt"), ("npu", "qnn, openvino, coreml, nnapi or webnn")],
)
def test_a_kind_of_device_names_its_targets(name: str, listed: str) -> None:
    with pytest.raises(targets.UnknownTargetError, match=f"'{name}'; .* {listed}$"):
        targets.named(name)
    known = {each.name for each in targets.every()}
    assert set(listed.replace(" or ", ", ").split(", ")) <= known


def test_each_plugin_is_a_target() -> None:
    assert {each.name for each in targets.every() if each.plugin is not None} == set(PLUGINS)
    assert all(targets.named(name).full_provider == each.provider for name, each in PLUGINS.items())
    assert targets.named("cuda").full_provider == "CUDAExecutionProvider"
    assert targets.named("webnn").full_provider == "webnn"


def test_how_to_install() -> None:
    assert targets.named("qnn").install == "pip install 'xoptim[qnn]'"
    assert targets.named("cuda").install == (
        "pip uninstall onnxruntime && pip install onnxruntime-gpu"
    )
    assert targets.named("coreml").install == ""
    assert targets.named("cpu").is_installed
    assert targets.named("nnapi").is_installed
