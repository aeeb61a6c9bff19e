"""``xopt tune``: the files, the table, JSON, the exit codes."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

import xoptim
from tests.cli.command import TRANSPOSES, Outcome, Xopt, files, types_in, write
from tests.precision.models import network, words
from tests.support import parse, values_in
from tests.tuning.fakes import FakeMeter
from tests.verification.test_fatal import PRODUCT
from xoptim.tuning import TuneOptions
from xoptim.tuning.choices import Choice
from xoptim.tuning.measurement import Measurement
from xoptim.verification import ProviderUnavailable

QUICK = ("--threads", "1", "--budget", "0.1")


pytestmark = pytest.mark.usefixtures("brief")


@pytest.fixture
def given_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default patterns take 0.9 of the time of the original; without memory patterns, a tenth
    less.
    """

    def seconds(choice: Choice) -> float:
        return (0.9 if choice.recipe.rewrites else 1.0) * (
            1.0 if choice.settings.memory_pattern else 0.9
        )

    monkeypatch.setattr(Measurement, "meter", lambda *_: FakeMeter(seconds))


def test_the_clock(xopt: Xopt) -> None:
    """Without given times: the figures differ from run to run, and the model is one of two that are
    equal.
    """
    code, out, err = xopt("tune", write(TRANSPOSES), *QUICK, "--dim", "a=3", "--dim", "b=2")
    assert (code, err) == (0, "")
    assert files() == {"model.onnx", "model.opt.onnx", "model.opt.onnx.session.json"}
    assert types_in("model.opt.onnx") in (["Relu"], ["Transpose", "Transpose", "Relu"])
    lines = out.splitlines()
    assert lines[0].split() == ["tried", "time", "/", "original"]
    assert lines[1].startswith("default ")
    words = [line.split()[0] for line in lines if line]
    assert {"chosen", "search", "sizes", "verification", "written"} <= set(words)
    assert "sizes         a=3, b=2" in lines
    assert xoptim.session("model.opt.onnx").get_session_options().intra_op_num_threads == 1


def test_a_model_at_which_an_optimization_ends_the_process(xopt: Xopt) -> None:
    """Without the settings that `xoptim.verification.runs.fatal` makes safe, onnxruntime ends
    pytest.
    """
    onnx.save(parse(PRODUCT, 13), "half.onnx")
    found = xopt("tune", "half.onnx", *QUICK, "--dim", "t=2", "--dim", "b=3", "--json").json
    assert "NchwcTransformer" in found["settings"]["disabled_optimizers"]
    saved = json.loads(Path("half.opt.onnx.session.json").read_text(encoding="utf-8"))
    assert saved == found["settings"]
    (y,) = xoptim.session("half.opt.onnx").run(None, {"x": np.ones((2, 3, 2), np.float16)})
    assert y.shape == (3, 2, 2)


@pytest.mark.usefixtures("given_times")
def test_the_table(xopt: Xopt) -> None:
    code, out, _ = xopt("tune", write(TRANSPOSES), "-o", "fast.onnx", "--threads", "1")
    assert code == 0
    lines = out.splitlines()
    assert lines[1].split() == ["default", "0.900", "(0.899", "to", "0.901)", "baseline"]
    assert any(
        line.startswith("memory pattern off") and line.rstrip().endswith(" faster")
        for line in lines
    )
    summary = Outcome(code, out, "").summary
    assert summary["chosen"].startswith("memory pattern off: ")
    assert values_in(summary["chosen"]) == ["3", "1", "0.810", "0.809", "0.811"]
    assert summary["written"] == "fast.onnx.session.json, fast.onnx"
    assert "result" not in summary
    assert not json.loads(Path("fast.onnx.session.json").read_text(encoding="utf-8"))[
        "enable_mem_pattern"
    ]


def test_where_nothing_is_faster_that_is_said(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Measurement, "meter", lambda *_: FakeMeter(lambda _: 1.0))
    assert "faster" in xopt("tune", write(TRANSPOSES), "--threads", "1").summary["result"]
    assert types_in("model.opt.onnx") == ["Relu"]


def test_a_search_that_was_not_finished(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Measurement, "meter", lambda *_: FakeMeter(lambda _: 1.0, most=0))
    first, *_, last = values_in(xopt("tune", write(TRANSPOSES)).summary["search"])
    assert (first, last) == ("0", "--budget")


@pytest.mark.usefixtures("given_times")
def test_json(xopt: Xopt) -> None:
    code, out, err = xopt("tune", write(TRANSPOSES), "--threads", "1", "--budget", "30", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert set(found) == {
        "model",
        "written",
        "is_faster",
        "is_original",
        "ratio",
        "interval",
        "chosen",
        "changes",
        "settings",
        "patterns",
        "settings_file",
        "assumptions",
        "nodes_before",
        "nodes_after",
        "tried",
        "not_tried",
        "seconds",
        "budget",
        "precision",
        "provider",
        "sizes",
        "verification",
        "refuted",
    }
    assert found["written"] == ["model.opt.onnx.session.json", "model.opt.onnx"]
    assert found["patterns"] == {"TransposeTranspose": 1}
    assert found["budget"] == 30
    assert set(found["tried"][0]) == {"label", "verdict", "ratio", "interval", "reason"}


def test_several_sizes(xopt: Xopt) -> None:
    words = ("tune", write(TRANSPOSES), *QUICK, "--dim", "a=3,5", "--dim", "b=2")
    assert re.findall(r"\w=\d", xopt(*words).summary["sizes"]) == ["b=2", "a=3", "a=5"]


def test_sizes_that_are_not_given_are_typical(xopt: Xopt) -> None:
    text = TRANSPOSES.replace("a,b", "batch,seq")
    sizes = xopt("tune", write(text), *QUICK).summary["sizes"]
    assert sizes.startswith("batch=1, seq=128 (--dim ")


def test_in_place(xopt: Xopt) -> None:
    assert xopt("tune", write(TRANSPOSES), "--in-place", *QUICK).code == 0
    assert files() == {"model.onnx", "model.onnx.session.json"}


def weighty() -> None:
    """A model with weights in a file of its own, as this command writes them."""
    model = parse("g (float[n,64] x) => (float[n,64] y) { t = MatMul(x, w) u = Neg(t) y = Neg(u) }")
    weights = onnx.numpy_helper.from_array(np.eye(64, dtype=np.float32), "w")
    model.graph.initializer.append(weights)
    name = "model.onnx.data"
    onnx.save(model, "model.onnx", save_as_external_data=True, location=name, size_threshold=0)


@pytest.mark.parametrize("is_shared", [False, True])
def test_former_weights_are_removed_unless_another_model_names_them(
    xopt: Xopt, is_shared: bool
) -> None:
    weighty()
    if is_shared:
        shutil.copy("model.onnx", "other.onnx")
    assert xopt("tune", "model.onnx", "--in-place", *QUICK).code == 0
    kept = {"model.onnx.data", "other.onnx"} if is_shared else set()
    assert files() == {"model.onnx", "model.onnx.session.json", "model.onnx.1.data", *kept}
    (y,) = xoptim.session("model.onnx").run(None, {"x": np.ones((2, 64), np.float32)})
    assert y.tolist() == np.ones((2, 64)).tolist()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("missing.onnx",), "missing.onnx"),
        (("text.onnx",), "text.onnx"),
        (("model.onnx", "-o", "model.onnx"), "is the input; use --in-place to overwrite it"),
        (("model.onnx", "-o", "no/such.onnx"), "the folder 'no' does not exist"),
        (
            ("model.onnx", "-o", "taken.onnx"),
            "cannot write 'taken.onnx.session.json': it is a folder",
        ),
        (("model.onnx", "--in-place", "-o", "x.onnx"), "exclude each other"),
        (("--budget", "0", "model.onnx"), "--budget"),
        (("model.onnx", "--dim", "q=3"), "q"),
        (("model.onnx", "--provider", "abacus"), "no execution provider 'abacus'"),
        (("unknown.onnx",), "NoSuch"),
    ],
)
def test_errors_take_one_line(xopt: Xopt, words: tuple[str, ...], message: str) -> None:
    write(TRANSPOSES)
    write("agraph (float[2] x) => (float[2] y) { y = NoSuch(x) }", "unknown.onnx")
    Path("text.onnx").write_text("no model", encoding="utf-8")
    Path("taken.onnx.session.json").mkdir()
    before = files()
    assert message in xopt("tune", *QUICK, *words).error
    assert files() == before


def test_a_model_that_cannot_be_verified(xopt: Xopt) -> None:
    write("agraph (float[n,4] x) => (float[n,4] y) { a = Exp(x) b = Neg(a) y = Log(b) }")
    done = xopt("tune", "model.onnx", *QUICK)
    assert done.code == 3
    assert "not verified" in done.warnings[0]
    assert types_in("model.opt.onnx") == ["Exp", "Neg", "Log"]


# -------------------------------------------------------------------- xopt MODEL --only-if-faster


def slower(choice: Choice) -> float:
    """The patterns about movement double the time."""
    return 2.0 if choice.recipe.rewrites and "movement" not in choice.recipe.without else 1.0


def test_patterns_that_make_the_model_slower_are_named(
    xopt: Xopt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Measurement, "meter", lambda *_: FakeMeter(slower))
    outcome = xopt(write(TRANSPOSES), "--only-if-faster")
    assert (outcome.code, outcome.err) == (0, "")
    assert values_in(outcome.summary["speed"])[:3] == ["2.000", "1.999", "2.001"]
    assert ": slower; without movement: " in outcome.summary["speed"]
    assert types_in("model.opt.onnx") == ["Transpose", "Transpose", "Relu"]
    found = xopt("model.onnx", "--only-if-faster", "--json").json
    assert found["only_if_faster"]["dropped"] == ["movement"]
    assert found["patterns"] == {}
    assert xopt("model.onnx", "--json").json["only_if_faster"] is None


def test_a_result_that_is_faster_is_kept(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Measurement,
        "meter",
        lambda *_: FakeMeter(lambda choice: 0.5 if choice.recipe.rewrites else 1.0),
    )
    speed = xopt(write(TRANSPOSES), "--only-if-faster").summary["speed"]
    assert values_in(speed) == ["0.500", "0.499", "0.501"]
    assert types_in("model.opt.onnx") == ["Relu"]


def test_a_result_that_cannot_be_measured_is_kept_with_a_warning(xopt: Xopt) -> None:
    write("agraph (float[2] x) => (float[2] y) { a = Neg(x) b = Neg(a) y = NoSuch(b) }")
    outcome = xopt("model.onnx", "--only-if-faster", "-q")
    assert outcome.code == 3
    assert any("not measured" in warning for warning in outcome.warnings)
    assert types_in("model.opt.onnx") == ["NoSuch"]


def test_fewer_bits(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Measurement,
        "meter",
        lambda *_: FakeMeter(lambda choice: 0.3 if choice.recipe.scheme else 0.9),
    )
    monkeypatch.setattr(
        "xoptim.precision.attempts.best_times", lambda runs, *_: [1.0, *[0.5] * (len(runs) - 1)]
    )
    monkeypatch.setattr("xoptim.precision.times.best_times", lambda *_: [1.0, 0.5])
    onnx.save(network(layers=1), "model.onnx")
    np.savez("feeds.npz", **words())  # type: ignore[arg-type]
    outcome = xopt(
        "tune", "model.onnx", "--threads", "1", "--tolerance", "20%", "--feeds", "feeds.npz"
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.summary["quantization"].startswith("int")
    assert values_in(outcome.summary["quantization"])[-2:] == ["20.00%", "1"]


def test_a_target_is_its_provider(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    def tuned(_: object, options: TuneOptions, **__: object) -> None:
        given.append(options.provider)
        raise ProviderUnavailable("no device")

    monkeypatch.setattr("xoptim.cli.commands.tune.tune", tuned)
    path = write(TRANSPOSES)
    assert xopt("tune", path, "--target", "qnn").error == "no device"
    assert xopt(path, "-O2", "--target", "qnn").error == "no device"
    assert given == ["qnn", "qnn"]
    assert "webnn" in xopt("tune", path, "--target", "webnn").error
    assert files() == {"model.onnx"}
