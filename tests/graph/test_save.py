import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support import parse, run
from xoptim.facts.errors import ModelError
from xoptim.graph import save
from xoptim.graph.data_file import check_external_data, has_external_data
from xoptim.graph.export import export_model
from xoptim.graph.load import load_model, read_proto
from xoptim.graph.save import save_proto, shared_files

FEEDS = {"c": np.array(True), "x": np.zeros(600, np.float32)}


def weight(name: str, value: float, size: int = 600) -> TensorProto:
    return numpy_helper.from_array(np.full(size, value, np.float32), name)


def model() -> onnx.ModelProto:
    """``x + 1 + 2 + 3 + 4``, the numbers as initializers of several kinds."""
    proto = parse("""agraph (bool c, float[600] x) => (float[600] y) {
      t = Add(x, large) u = Add(t, small) k = Constant() v = Add(u, k)
      y = If (c) <then_branch = b () => (float[600] q) { q = Add(v, inner) },
                  else_branch = e () => (float[600] q) { q = Neg(v) }>
    }""")
    proto.graph.initializer.extend([weight("large", 1), weight("small", 2, 1)])
    proto.graph.node[2].attribute.append(helper.make_attribute("value", weight("k", 3)))
    branch = next(a.g for a in proto.graph.node[4].attribute if a.name == "then_branch")
    branch.initializer.append(weight("inner", 4))
    return proto


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def check(path: Path) -> None:
    assert run(onnx.ModelProto(), FEEDS, str(path))[0].tolist() == [10] * 600
    loaded = onnx.load(path)
    assert run(loaded, FEEDS)[0].tolist() == [10] * 600
    check_external_data(read_proto(path), path.parent)


def place(tensor: TensorProto) -> dict[str, str]:
    return {e.key: e.value for e in tensor.external_data}


def test_small_models_are_one_file(tmp_path: Path) -> None:
    target = tmp_path / "m.onnx"
    assert save_proto(model(), target) == [target]
    assert files(tmp_path) == ["m.onnx"]
    assert read_proto(target) == model()
    assert not has_external_data(read_proto(target))
    check(target)


def test_paths_may_be_texts(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    save_proto(model(), str(first / "m.onnx"), external=True)
    written = save_proto(read_proto(first / "m.onnx"), str(second / "m.onnx"), str(first))
    assert written == [second / "m.onnx.data", second / "m.onnx"]
    assert run(onnx.load(second / "m.onnx"), FEEDS)[0].tolist() == [10] * 600


def test_external_data_on_demand(tmp_path: Path) -> None:
    target = tmp_path / "m.onnx"
    proto = model()
    assert save_proto(proto, target, external=True) == [tmp_path / "m.onnx.data", target]
    written = read_proto(target)
    assert has_external_data(written)
    large, small = written.graph.initializer
    assert place(large) == {"location": "m.onnx.data", "offset": "0", "length": "2400"}
    assert not large.HasField("raw_data")
    assert small.HasField("raw_data"), "what is small stays in the model"
    check(target)


def test_external_data_above_the_limit_of_protobuf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(save, "PROTO_LIMIT", 4000)
    save_proto(model(), tmp_path / "large.onnx")
    assert files(tmp_path) == ["large.onnx", "large.onnx.data"]
    check(tmp_path / "large.onnx")
    save_proto(model(), tmp_path / "inline.onnx", external=False)
    assert "inline.onnx.data" not in files(tmp_path)
    check(tmp_path / "inline.onnx")


def test_large_tensors_are_aligned_to_pages(tmp_path: Path) -> None:
    proto = model()
    proto.graph.initializer.extend(
        [weight("a", 0, 500), weight("b", 5, 2000), weight("c_", 6, 2000)]
    )
    save_proto(proto, tmp_path / "m.onnx", external=True)
    offsets = [int(place(t)["offset"]) for t in proto.graph.initializer if t.external_data]
    assert offsets == [
        0,
        4800,
        8192,
        16384,
    ], "in the order in which nodes use them, those that nothing uses last"
    check(tmp_path / "m.onnx")
    found = {
        t.name: numpy_helper.to_array(t)[0]
        for t in onnx.load(tmp_path / "m.onnx").graph.initializer
    }
    assert (found["b"], found["c_"]) == (5, 6)


def stored_elsewhere(folder: Path, location: str = "weights.bin") -> onnx.ModelProto:
    """A model with all tensors, the one of a Constant too, in a file in ``folder``."""
    folder.mkdir()
    onnx.save(
        model(),
        folder / "m.onnx",
        save_as_external_data=True,
        location=location,
        size_threshold=100,
        convert_attribute=True,
    )
    return read_proto(folder / "m.onnx")


def test_shared_weights_are_referred_to(tmp_path: Path) -> None:
    proto = stored_elsewhere(tmp_path / "in")
    before = (tmp_path / "in" / "weights.bin").read_bytes()
    written = save_proto(proto, tmp_path / "in" / "out.onnx", tmp_path / "in", share_weights=True)
    assert written == [tmp_path / "in" / "out.onnx"]
    assert shared_files(read_proto(written[0])) == ["weights.bin"]
    assert files(tmp_path / "in") == ["m.onnx", "out.onnx", "weights.bin"]
    check(tmp_path / "in" / "out.onnx")
    assert (tmp_path / "in" / "weights.bin").read_bytes() == before


def test_a_shared_file_may_have_a_comma_in_its_name(tmp_path: Path) -> None:
    proto = stored_elsewhere(tmp_path / "in", "a, b.bin")
    written = save_proto(proto, tmp_path / "in" / "out.onnx", tmp_path / "in", share_weights=True)
    assert shared_files(read_proto(written[0])) == ["a, b.bin"]


def test_elsewhere_external_data_is_copied(tmp_path: Path) -> None:
    proto = stored_elsewhere(tmp_path / "in")
    target = tmp_path / "m.onnx"
    assert save_proto(proto, target, tmp_path / "in") == [tmp_path / "m.onnx.data", target]
    (tmp_path / "in" / "weights.bin").unlink()
    check(target)


def test_new_weights_go_to_a_file_of_their_own_next_to_one_that_is_in_use(tmp_path: Path) -> None:
    target = tmp_path / "m.onnx"
    save_proto(model(), target, external=True)
    proto = read_proto(target)
    proto.graph.initializer.append(weight("new", 9))
    written = save_proto(proto, target, tmp_path, external=True)
    assert written == [tmp_path / "m.onnx.1.data", target]
    check(target)
    assert place(read_proto(target).graph.initializer[-1])["location"] == "m.onnx.1.data"


def test_a_model_can_be_written_over_itself(tmp_path: Path) -> None:
    target = tmp_path / "in" / "m.onnx"
    stored_elsewhere(tmp_path / "in")
    loaded = load_model(read_proto(target), tmp_path / "in")
    before = (tmp_path / "in" / "weights.bin").read_bytes()
    save_proto(export_model(loaded), target, tmp_path / "in")
    assert files(tmp_path / "in") == ["m.onnx", "m.onnx.data", "weights.bin"]
    assert (tmp_path / "in" / "weights.bin").read_bytes() == before, "other models may refer to it"
    (tmp_path / "in" / "weights.bin").unlink()
    check(target)


def test_strings_stay_in_the_model(tmp_path: Path) -> None:
    proto = parse("agraph () => (string[200] y) { y = Identity(s) }")
    proto.graph.initializer.append(
        TensorProto(name="s", data_type=TensorProto.STRING, dims=[200], string_data=[b"a"] * 200)
    )
    save_proto(proto, tmp_path / "m.onnx", external=True)
    assert run(onnx.ModelProto(), {}, str(tmp_path / "m.onnx"))[0].tolist() == ["a"] * 200


@pytest.mark.parametrize(
    "typed", [TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.INT4, TensorProto.COMPLEX64]
)
def test_every_form_of_storage_can_move(tmp_path: Path, typed: int) -> None:
    tensor = helper.make_tensor("w", typed, [4096], [1.0, 0.0, 1.0, 1.0] * 1024)
    expected = numpy_helper.to_array(tensor)
    graph = helper.make_graph([], "g", [], [], [tensor])
    save_proto(helper.make_model(graph), tmp_path / "m.onnx", external=True)
    again = onnx.load(tmp_path / "m.onnx").graph.initializer[0]
    np.testing.assert_array_equal(numpy_helper.to_array(again), expected)


@pytest.mark.parametrize(
    "failure", ["missing folder", "missing data", "short data", "disk full", "a folder"]
)
def test_failures_leave_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    proto = stored_elsewhere(tmp_path / "in")
    out = tmp_path / "out"
    out.mkdir()
    target = out / "m.onnx"
    if failure == "missing folder":
        target = out / "none" / "m.onnx"
    elif failure == "a folder":
        target.mkdir()
    else:
        target.write_bytes(b"old")
        (out / "m.onnx.data").write_bytes(b"old data")
    if failure == "missing data":
        (tmp_path / "in" / "weights.bin").unlink()
    elif failure == "short data":
        (tmp_path / "in" / "weights.bin").write_bytes(b"1")
    elif failure == "disk full":

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "replace", full)
    before = files(out)
    with pytest.raises(ModelError, match=r"cannot write|missing|truncated"):
        save_proto(proto, target, tmp_path / "in")
    assert files(out) == before, "no temporary file is left"
    if target.is_file():
        assert target.read_bytes() == b"old"
        assert (out / "m.onnx.data").read_bytes() == b"old data"


def test_further_files_are_moved_into_place_with_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, beside = tmp_path / "m.onnx", tmp_path / "m.json"
    assert save_proto(model(), target, along={beside: b"new"}) == [beside, target]
    assert beside.read_bytes() == b"new"
    check(target)
    before, replace = target.read_bytes(), os.replace

    def fails_at_the_model(source: Path, final: Path) -> None:
        if final == target and source.suffix == ".tmp":
            raise OSError(28, "No space left on device")
        replace(source, final)

    monkeypatch.setattr(os, "replace", fails_at_the_model)
    with pytest.raises(ModelError, match="No space"):
        save_proto(model(), target, along={beside: b"newer"})
    assert beside.read_bytes() == b"new"
    assert target.read_bytes() == before
    assert files(tmp_path) == ["m.json", "m.onnx"]


def test_permissions_are_those_of_a_new_file_or_of_the_one_replaced(tmp_path: Path) -> None:
    target = tmp_path / "m.onnx"
    mask = os.umask(0o027)
    try:
        save_proto(model(), target)
        assert target.stat().st_mode & 0o777 == 0o640
        target.chmod(0o600)
        save_proto(model(), target)
        assert target.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(mask)
