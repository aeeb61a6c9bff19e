import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse
from xoptim.facts.errors import ModelError
from xoptim.graph.load import load_model, read_proto
from xoptim.graph.model import Model
from xoptim.graph.save import Draft, shared_files


def weighty(folder: Path, value: float) -> Model:
    """A model with one external weight of 4 kB."""
    folder.mkdir(exist_ok=True)
    proto = parse("agraph (float[1024] x) => (float[1024] y) { y = Add(x, w) }")
    proto.graph.initializer.append(numpy_helper.from_array(np.full(1024, value, np.float32), "w"))
    onnx.save(
        proto, folder / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    return load_model(read_proto(folder / "m.onnx"), folder)


def value_of(path: Path) -> float:
    return float(numpy_helper.to_array(onnx.load(path).graph.initializer[0])[0])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_a_draft_can_be_loaded_before_it_is_in_place(tmp_path: Path) -> None:
    with Draft(tmp_path / "out.onnx") as draft:
        proto = draft.export(weighty(tmp_path / "in", 3))
        onnx.load_external_data_for_model(proto, str(draft.folder))
        assert numpy_helper.to_array(proto.graph.initializer[0])[0] == 3
        assert "out.onnx" not in names(tmp_path)
    assert names(tmp_path) == [], "what is not committed is removed"


def test_the_committed_one_of_several_drafts_stays(tmp_path: Path) -> None:
    with Draft(tmp_path / "out.onnx") as draft:
        protos = [draft.export(weighty(tmp_path / f"in{value}", value)) for value in (1, 2, 3)]
        draft.discard(protos[0])
        assert len(names(tmp_path)) == 2
        assert draft.commit(protos[1]) == [tmp_path / "out.onnx.data", tmp_path / "out.onnx"]
    assert names(tmp_path) == ["out.onnx", "out.onnx.data"]
    assert value_of(tmp_path / "out.onnx") == 2


def test_a_draft_without_a_target_leaves_nothing(tmp_path: Path) -> None:
    with Draft(None) as draft:
        draft.export(weighty(tmp_path / "in", 1))
        folder = draft.folder
        assert names(folder)
    assert not folder.exists()


@pytest.mark.parametrize("last", [0, 1, 2])
def test_there_is_a_whole_model_at_any_time(
    last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends after each of the steps that move files."""
    target, replace = tmp_path / "out.onnx", os.replace
    with Draft(target) as draft:
        draft.commit(draft.export(weighty(tmp_path / "in1", 1)))
    steps: list[Path] = []

    def until_killed(source: Path, final: Path) -> None:
        if len(steps) < last:
            replace(source, final)
        assert value_of(target) == (2 if len(steps) + 1 == last == 2 else 1)
        steps.append(final)

    with monkeypatch.context() as patch, Draft(target) as draft:
        patch.setattr(os, "replace", until_killed)
        draft.commit(draft.export(weighty(tmp_path / "in2", 2)))
    assert steps == [tmp_path / "out.onnx.1.data", target]
    assert value_of(target) == (2 if last == 2 else 1)


def test_former_weights_are_removed_unless_a_model_needs_them(tmp_path: Path) -> None:
    target = tmp_path / "out.onnx"
    for number in (1, 2, 3):
        with Draft(target) as draft:
            draft.commit(draft.export(weighty(tmp_path / "in", number)))
        assert names(tmp_path) == sorted(
            ["out.onnx", "out.onnx.1.data" if number == 2 else "out.onnx.data"]
        )
        assert value_of(target) == number
    with Draft(tmp_path / "sharing.onnx", share_weights=True) as draft:
        draft.commit(draft.export(load_model(read_proto(target), tmp_path)))
    (tmp_path / "out.onnx.7.data").write_bytes(b"of nobody")
    with Draft(target) as draft:
        draft.commit(draft.export(weighty(tmp_path / "in", 4)))
    assert value_of(tmp_path / "sharing.onnx") == 3
    assert names(tmp_path) == [
        "out.onnx",
        "out.onnx.1.data",
        "out.onnx.7.data",
        "out.onnx.data",
        "sharing.onnx",
    ]


@pytest.mark.parametrize("in_place", [False, True])
def test_weights_of_the_original_stay_unless_it_is_replaced(in_place: bool, tmp_path: Path) -> None:
    """A model in memory may still read them."""
    target = tmp_path / "out.onnx"
    with Draft(target) as draft:
        draft.commit(draft.export(weighty(tmp_path / "in", 1)))
    with Draft(target, in_place=in_place) as draft:
        draft.commit(draft.export(load_model(read_proto(target), tmp_path)))
    assert value_of(target) == 1
    kept = [] if in_place else ["out.onnx.data"]
    assert names(tmp_path) == sorted(["out.onnx", "out.onnx.1.data", *kept])


def test_a_name_that_is_kept_is_given_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Draft(tmp_path / "out.onnx") as draft:
        proto = draft.export(weighty(tmp_path / "in", 1))
        monkeypatch.setattr("xoptim.graph.save.check_space", raising)
        with pytest.raises(ModelError, match="no room"):
            draft.commit(proto)
    assert names(tmp_path) == []


def raising(*_: object) -> None:
    raise OSError("no room")


def test_sharing_is_noted_and_forgotten(tmp_path: Path) -> None:
    model = weighty(tmp_path / "in", 1)
    with Draft(tmp_path / "in" / "out.onnx", share_weights=True) as draft:
        assert draft.commit(draft.export(model)) == [tmp_path / "in" / "out.onnx"]
    shared = read_proto(tmp_path / "in" / "out.onnx")
    assert shared_files(shared) == ["w.bin"]
    with Draft(tmp_path / "whole.onnx") as draft:
        draft.commit(draft.export(load_model(shared, tmp_path / "in")))
    assert shared_files(read_proto(tmp_path / "whole.onnx")) == []


def test_weights_of_another_model_of_the_draft_are_not_shared(tmp_path: Path) -> None:
    with Draft(tmp_path / "out.onnx", share_weights=True) as draft:
        first = draft.export(weighty(tmp_path / "in", 1))
        draft.commit(draft.export(load_model(first, draft.folder)))
    assert names(tmp_path) == ["out.onnx", "out.onnx.data"]
    assert value_of(tmp_path / "out.onnx") == 1


def test_weights_of_the_original_are_not_overwritten(tmp_path: Path) -> None:
    model = weighty(tmp_path / "in", 1)
    with (
        Draft(tmp_path / "in" / "w.bin") as draft,
        pytest.raises(ModelError, match="holds weights"),
    ):
        draft.export(model)
