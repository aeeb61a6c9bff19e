"""Weights in files of their own that are missing, too short, or outside the model's folder."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cli.command import Xopt, types_in, write
from tests.hostile.cases import Case, check, listed, optimized, refused, text
from tests.support import parse
from xoptim import ModelError, optimize, save

OUTSIDE = "is outside the model's folder"
SHORT = "is too short; it may be truncated"


def external(location: str, /, **more: str) -> Callable[[], onnx.ModelProto]:
    """A model with one weight of 16 bytes in another file, among files that are a temptation."""

    def make() -> onnx.ModelProto:
        Path("../outside.bin").write_bytes(bytes(64))
        Path("link.bin").symlink_to("../outside.bin")
        Path("door").symlink_to("..")
        Path("circle.bin").symlink_to("circle.bin")
        Path("inner").mkdir()
        for name, size in (
            ("short.bin", 15),
            ("long.bin", 64),
            ("inner/w.bin", 16),
            ("größe 模型.bin", 16),
        ):
            Path(name).write_bytes(b"\x3f" * size)
        Path("alias.bin").symlink_to("long.bin")
        model = parse("agraph (float[4] x) => (float[4] y) { t = Identity(x) y = Add(t, w) }")
        tensor = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[4])
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, "length": "16", **more}.items():
            tensor.external_data.add(key=key, value=value)
        return model

    return make


def typed(data_type: int, *dims: int) -> Callable[[], onnx.ModelProto]:
    def make() -> onnx.ModelProto:
        model = external("long.bin")()
        model.graph.initializer[0].data_type = data_type
        model.graph.initializer[0].dims[:] = dims
        return model

    return make


CASES = [
    refused(
        "external-missing",
        "a file that is missing",
        external("absent.bin"),
        "is missing; put it next to the model",
    ),
    refused("external-nowhere", "no location", external(""), "is missing"),
    refused("external-short", "a truncated file", external("short.bin"), SHORT),
    refused(
        "external-beyond",
        "a place that begins in the file and ends after it",
        external("long.bin", offset="60"),
        SHORT,
    ),
    refused("external-far", "an offset of 2^62", external("long.bin", offset=str(1 << 62)), SHORT),
    refused(
        "external-huge",
        "an offset of 2^80",
        external("long.bin", offset=str(1 << 80)),
        "is not a number below 2^63",
    ),
    refused(
        "external-few", "fewer bytes than the shape needs", external("long.bin", length="8"), SHORT
    ),
    refused(
        "external-negative",
        "a negative offset",
        external("long.bin", offset="-16"),
        "is not a number below 2^63",
    ),
    refused(
        "external-word",
        "an offset that is a word",
        external("long.bin", offset="here"),
        "is not a number",
    ),
    refused("external-dims", "a shape of 2^62 elements", typed(TensorProto.FLOAT, 1 << 62), SHORT),
    refused(
        "external-dims-negative",
        "a negative dimension",
        typed(TensorProto.FLOAT, -4),
        "is damaged: its shape is [-4]",
    ),
    refused("external-type", "an element type that does not exist", typed(99, 4), "its type is 99"),
    refused("external-up", "the location ../outside.bin", external("../outside.bin"), OUTSIDE),
    refused(
        "external-passwd", "the location ../../etc/passwd", external("../../etc/passwd"), OUTSIDE
    ),
    refused(
        "external-up-windows",
        "the location ..\\\\outside.bin",
        external("..\\outside.bin"),
        OUTSIDE,
    ),
    refused("external-absolute", "the location /etc/passwd", external("/etc/passwd"), OUTSIDE),
    refused("external-device", "the location /dev/zero", external("/dev/zero"), OUTSIDE),
    refused(
        "external-through",
        "the location inner/../../outside.bin",
        external("inner/../../outside.bin"),
        OUTSIDE,
    ),
    refused("external-link", "a link out of the folder", external("link.bin"), OUTSIDE),
    refused(
        "external-door", "a file in a linked folder outside", external("door/outside.bin"), OUTSIDE
    ),
    refused(
        "external-circle", "a link that leads to itself", external("circle.bin"), "cannot be read"
    ),
    refused("external-folder", "a folder", external("inner"), "is not a file"),
    refused("external-here", "the model's own folder", external("."), "is not a file"),
    refused("external-null", "a name with a null byte", external("a\0b"), "cannot be read"),
    refused(
        "external-endless",
        "a name of 5000 letters",
        external("x" * 5000),
        "cannot be read: File name too long",
    ),
    optimized("external-inner", "a file in a folder within", external("inner/w.bin"), "Add"),
    optimized("external-windows", "the location inner\\\\w.bin", external("inner\\w.bin"), "Add"),
    optimized("external-alias", "a link within the folder", external("alias.bin"), "Add"),
    optimized(
        "external-detour", "the location inner/../long.bin", external("inner/../long.bin"), "Add"
    ),
    optimized(
        "external-unaligned", "an offset of 3 bytes", external("long.bin", offset="3"), "Add"
    ),
    optimized(
        "external-unicode",
        "a file name with spaces and signs of other scripts",
        external("größe 模型.bin"),
        "Add",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.skipif(sys.platform == "win32", reason="links of POSIX")
def test_external_data(xopt: Xopt, case: Case) -> None:
    check(case, xopt)


def outsider(change: Callable[[onnx.ModelProto, TensorProto], None]) -> onnx.ModelProto:
    """A model with a tensor outside its folder, at some place where a tensor can be."""
    Path("../outside.bin").write_bytes(bytes(64))
    tensor = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL
    )
    tensor.external_data.add(key="location", value="../outside.bin")
    model = parse("agraph (float[2] x) => (float[2] y) { y = Neg(x) }")
    change(model, tensor)
    return model


def in_sparse(model: onnx.ModelProto, tensor: TensorProto) -> None:
    model.graph.sparse_initializer.add(dims=[9]).values.CopyFrom(tensor)


def in_constant(model: onnx.ModelProto, tensor: TensorProto) -> None:
    model.graph.node.add(op_type="Constant", output=["c"]).attribute.append(
        helper.make_attribute("value", tensor)
    )


def in_training(model: onnx.ModelProto, tensor: TensorProto) -> None:
    model.training_info.add().algorithm.initializer.append(tensor)


def in_branch(model: onnx.ModelProto, tensor: TensorProto) -> None:
    branch = parse("b () => (w) { }").graph
    branch.initializer.append(tensor)
    model.graph.node.add(op_type="If", input=["x"], output=["c"]).attribute.append(
        helper.make_attribute("then_branch", branch)
    )


def in_function(model: onnx.ModelProto, tensor: TensorProto) -> None:
    function = model.functions.add(domain="local", name="f")
    function.node.add(op_type="Constant", output=["c"]).attribute.append(
        helper.make_attribute("value", tensor)
    )


PLACES = (in_sparse, in_constant, in_training, in_branch, in_function)


@listed(
    "external-anywhere",
    "a file outside, for a sparse tensor, a Constant, training, a branch, a local function",
    f"error: “… {OUTSIDE}”",
)
@pytest.mark.parametrize("place", PLACES)
def test_escapes_are_refused_wherever_the_tensor_is(
    xopt: Xopt, place: Callable[[onnx.ModelProto, TensorProto], None]
) -> None:
    write(outsider(place))
    assert OUTSIDE in xopt("model.onnx").error


@listed(
    "external-python",
    "a `ModelProto` in Python whose weights are outside",
    f"`ModelError`: “… {OUTSIDE}” when they are needed",
)
def test_escapes_are_refused_in_python() -> None:
    model = external("../outside.bin")()
    optimized_model = optimize(model)  # it needs no weights
    with pytest.raises(ModelError, match=OUTSIDE):
        save(optimized_model, Path("inner/out.onnx"), Path())
    assert not Path("inner/out.onnx").exists()
    model.graph.node[1].input[0] = "w"  # now they are folded
    with pytest.raises(ModelError, match=OUTSIDE):
        optimize(model)


@listed(
    "external-sparse",
    "values of a sparse tensor in a file, and a target in another folder",
    "they go with it",
)
def test_sparse_values_go_along(xopt: Xopt) -> None:
    model = text("agraph (float[4] x) => (float[4] y) { t = Identity(x) y = Add(t, w) }")()
    sparse = model.graph.sparse_initializer.add(dims=[4])
    sparse.values.CopyFrom(numpy_helper.from_array(np.array([7, 8], np.float32), "w"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array([0, 3]), ""))
    Path("values.bin").write_bytes(sparse.values.raw_data)
    sparse.values.ClearField("raw_data")
    sparse.values.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "values.bin"), ("offset", "0"), ("length", "8")):
        sparse.values.external_data.add(key=key, value=value)
    write(model)
    Path("other").mkdir()
    assert xopt("model.onnx", "-o", "other/out.onnx", "--no-verify").code == 0
    (place,) = onnx.load("other/out.onnx", load_external_data=False).graph.sparse_initializer
    entries = {e.key: e.value for e in place.values.external_data}
    stored = Path("other", entries["location"]).read_bytes()[int(entries["offset"]) :][:8]
    assert np.frombuffer(stored, np.float32).tolist() == [7, 8]


@listed(
    "external-unicode-moved",
    "all names with spaces and signs of other scripts, the target in another folder",
    "weights go with it",
)
def test_weights_move_under_odd_names(xopt: Xopt) -> None:
    name = "ein Modell ☃.onnx"
    write(external("größe 模型.bin")(), name)
    Path("日本 語").mkdir()
    target = f"日本 語/{name}"
    assert xopt(name, "-o", target, "--strict", "-q") == (0, "", "")
    assert Path(f"{target}.data").stat().st_size == 16
    assert types_in(target) == ["Add"]
    assert xopt("verify", name, target, "--exact").code == 0


@listed(
    "external-in-place",
    "weights in a file, the model overwritten in place",
    "the file of the weights is not touched",
)
def test_in_place(xopt: Xopt) -> None:
    write(external("long.bin")())
    stored = Path("long.bin").stat()
    assert xopt("model.onnx", "--in-place", "--strict", "-q") == (0, "", "")
    assert (Path("long.bin").stat().st_ino, Path("long.bin").stat().st_mtime_ns) == (
        stored.st_ino,
        stored.st_mtime_ns,
    )
    assert types_in("model.onnx") == ["Add"]


@listed(
    "external-target",
    "a target that is the file of the weights",
    "error: “… holds weights of the input; write somewhere else”",
)
def test_a_target_that_holds_the_weights(xopt: Xopt) -> None:
    write(external("long.bin")())
    # where zeros are added, the result needs no weights
    for weights in (Path("long.bin").read_bytes(), bytes(64)):
        Path("long.bin").write_bytes(weights)
        _check_target(xopt, weights)


def _check_target(xopt: Xopt, weights: bytes) -> None:
    for target in ("long.bin", "alias.bin", "inner/../long.bin"):
        assert "holds weights" in xopt("model.onnx", "-o", target).error
    assert Path("long.bin").read_bytes() == weights


@listed(
    "external-self",
    "a model that names its own file for its weights",
    "error: “… holds weights of the input …”",
)
def test_weights_within_the_model_itself(xopt: Xopt) -> None:
    given = write(external("model.onnx")()).read_bytes()
    assert "holds weights" in xopt("model.onnx", "--in-place").error
    assert Path("model.onnx").read_bytes() == given
