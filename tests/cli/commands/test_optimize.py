"""``xopt MODEL``: the written files, and the messages."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.cli.command import ONLY, RELU, TRANSPOSES, Xopt, files, types_in, write
from tests.precision.models import network
from tests.support import parse, values_in
from xoptim import GraphBuilder

CONSTANTS = (
    "agraph (float[2] x) => (float[2] y) <float[2] a = {1, 2}> { t = Neg(a) u = Exp(t) "
    "v = Mul(x, u) y = Add(v, t) }"
)
CALLS = """
agraph (float[a,b] x) => (float[a,b] y) { y = local.twice(x) }
<domain: "local", opset_import: ["" : 18]> twice (x) => (y) { t = Transpose(x) y = Transpose(t) }"""


def heavy() -> onnx.ModelProto:
    """A model with 16 kB of weights."""
    model = parse("agraph (float[n,64] x) => (float[n,64] y) { t = MatMul(x, w) y = Relu(t) }")
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return model


# -------------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("model.onnx", "model.opt.onnx"),
        ("net.v2.onnx", "net.v2.opt.onnx"),
        ("bare", "bare.opt.onnx"),
    ],
)
def test_default_name_of_the_result(xopt: Xopt, name: str, expected: str) -> None:
    given = write(TRANSPOSES, name).read_bytes()
    assert xopt(name).code == 0
    assert files() == {name, expected}
    assert Path(name).read_bytes() == given
    assert types_in(expected) == ["Relu"]


def test_the_result_is_next_to_the_model(xopt: Xopt) -> None:
    Path("folder").mkdir()
    write(TRANSPOSES, "folder/model.onnx")
    assert xopt("folder/model.onnx").code == 0
    assert files() == {"folder"}
    assert {path.name for path in Path("folder").iterdir()} == {"model.onnx", "model.opt.onnx"}


@pytest.mark.parametrize("option", ["-o", "--output"])
def test_another_name(xopt: Xopt, option: str) -> None:
    write(TRANSPOSES)
    Path("old.onnx").write_bytes(b"old")
    assert xopt("model.onnx", option, "old.onnx").code == 0
    assert files() == {"model.onnx", "old.onnx"}
    assert types_in("old.onnx") == ["Relu"]


def test_in_place(xopt: Xopt) -> None:
    write(TRANSPOSES).chmod(0o640)
    assert xopt("model.onnx", "--in-place").code == 0
    assert files() == {"model.onnx"}
    assert types_in("model.onnx") == ["Relu"]
    assert Path("model.onnx").stat().st_mode & 0o777 == 0o640


def test_dry_run(xopt: Xopt) -> None:
    write(TRANSPOSES)
    outcome = xopt("model.onnx", "--dry-run")
    assert outcome.code == 0
    assert outcome.summary["written"] == "nothing"
    assert outcome.summary["verification"].startswith("equal ")
    assert re.search(r"size .*→", outcome.out)
    assert files() == {"model.onnx"}


def test_two_runs_write_the_same(xopt: Xopt) -> None:
    write(heavy())
    for name in ("a.onnx", "b.onnx"):
        assert xopt("model.onnx", "-o", name, "-q").code == 0
    assert Path("a.onnx").read_bytes() == Path("b.onnx").read_bytes()


def test_weights_in_a_file_of_their_own(xopt: Xopt) -> None:
    write(heavy())
    outcome = xopt("model.onnx", "--external-data", "--json")
    assert outcome.code == 0
    assert files() == {"model.onnx", "model.opt.onnx", "model.opt.onnx.data"}
    assert sorted(outcome.json["written"]) == ["model.opt.onnx", "model.opt.onnx.data"]
    assert outcome.json["bytes_after"] == sum(
        Path(name).stat().st_size for name in outcome.json["written"]
    )
    assert xopt("verify", "model.onnx", "model.opt.onnx", "--exact").code == 0
    Path("model.opt.onnx").rename("split.onnx")
    shared = xopt("split.onnx", "-o", "shared.onnx", "--share-weights", "--json")
    assert (shared.json["written"], shared.json["needed"]) == (
        ["shared.onnx"],
        ["model.opt.onnx.data"],
    )
    shown = xopt("split.onnx", "-o", "shared.onnx", "--share-weights").summary
    assert shown["needs"].startswith("model.opt.onnx.data")
    again = xopt("split.onnx", "-o", "again.onnx", "--json")
    assert (sorted(again.json["written"]), again.json["needed"]) == (
        ["again.onnx", "again.onnx.data"],
        [],
    )
    assert again.json["bytes_before"] == outcome.json["bytes_after"]
    assert again.json["bytes_after"] > 1 << 14


def test_weights_of_the_input_are_not_overwritten(xopt: Xopt) -> None:
    onnx.save(
        heavy(), "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    given = Path("weights.bin").read_bytes()
    assert "'weights.bin'" in xopt("model.onnx", "-o", "weights.bin").error
    assert Path("weights.bin").read_bytes() == given


def test_weights_follow_to_another_folder(xopt: Xopt) -> None:
    Path("there").mkdir()
    onnx.save(
        heavy(), "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    assert xopt("model.onnx", "-o", "there/model.onnx").code == 0
    assert {path.name for path in Path("there").iterdir()} == {"model.onnx", "model.onnx.data"}
    assert xopt("verify", "model.onnx", "there/model.onnx", "--exact").code == 0


# -------------------------------------------------------------------- what is done


def test_a_selection(xopt: Xopt) -> None:
    write(TRANSPOSES)
    assert (
        xopt("model.onnx", "--patterns", "default-TransposeTranspose", "--dry-run", "--json")
        .json["patterns"]
        .get("TransposeTranspose")
        is None
    )
    chosen = xopt("model.onnx", "--patterns", "TransposeTransposePattern", "--json").json
    assert chosen["patterns"] == {"TransposeTranspose": 1}
    assert chosen["operators_after"] == {"Relu": 1}
    dropped = xopt(
        "model.onnx", *ONLY, "--drop", "TransposeTranspose", "--drop", "CastPattern", "--json"
    ).json
    assert dropped["patterns"] == {}
    assert dropped["operators_after"] == {"Relu": 1, "Transpose": 2}


@pytest.mark.parametrize("option", ["--patterns", "--drop"])
def test_an_unknown_pattern_is_noticed_before_any_work(
    xopt: Xopt, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("the model was read")

    write(TRANSPOSES)
    monkeypatch.setattr("xoptim.optimizing.verified.GraphBuilder", fail)
    error = xopt("model.onnx", option, "TransposTranspose").error
    assert values_in(error)[-2:] == ["TransposTranspose", "TransposeTranspose"]
    assert "'qqqqqqqqqqqqqqq'" in xopt("model.onnx", option, "q" * 15).error
    assert files() == {"model.onnx"}


def test_no_rounds(xopt: Xopt) -> None:
    """No pattern runs; folding and cleaning do."""
    write(TRANSPOSES)
    assert xopt("model.onnx", "--max-rounds", "0", "--json").json["operators_after"] == {
        "Relu": 1,
        "Transpose": 2,
    }
    write(CONSTANTS)
    summary = xopt("model.onnx", "--max-rounds", "0", "--json").json
    assert summary["patterns"] == {}
    assert summary["operators_after"] == {"Add": 1, "Mul": 1}
    assert summary["exactness"] == "rounding"


def test_inline(xopt: Xopt) -> None:
    write(CALLS, domains={"local": 1})
    assert xopt("model.onnx", "-o", "kept.onnx", "-q").code == 0
    assert types_in("kept.onnx") == ["twice"]
    assert xopt("model.onnx", "--inline", "-q").code == 0
    assert not onnx.load("model.opt.onnx").functions
    assert "twice" not in types_in("model.opt.onnx")
    assert xopt("verify", "model.onnx", "model.opt.onnx", "--exact").code == 0


@pytest.mark.usefixtures("bad_patterns")
def test_a_pattern_that_fails_is_skipped(xopt: Xopt) -> None:
    write(TRANSPOSES)
    outcome = xopt("model.onnx", "--patterns", "Failing+TransposeTranspose")
    assert outcome.code == 0
    (warning,) = outcome.warnings
    assert re.search("Failing .*'Relu': ZeroDivisionError: there is nothing here", warning)
    assert types_in("model.opt.onnx") == ["Relu"]


@pytest.mark.usefixtures("bad_patterns")
def test_a_pattern_that_fails_is_an_error_of_a_strict_run(xopt: Xopt) -> None:
    write(RELU)
    outcome = xopt("model.onnx", "--patterns", "Failing", "--strict")
    assert re.search("Failing .*'Relu': ZeroDivisionError", outcome.error)
    assert files() == {"model.onnx"}


# -------------------------------------------------------------------- what is said

KEYS: dict[str, Any] = {
    "model": str,
    "written": list,
    "nodes_before": int,
    "nodes_after": int,
    "operators_before": dict,
    "operators_after": dict,
    "opset_before": int,
    "opset_after": int,
    "bytes_before": int,
    "bytes_after": int,
    "patterns": dict,
    "exactness": str,
    "unchecked_operators": list,
    "load_seconds": float,
    "optimize_seconds": float,
    "verify_seconds": float,
    "unfolded": type(None),
    "report": type(None),
    "verification": list,
    "dropped": list,
    "each": type(None),
    "latency": type(None),
    "hints": list,
    "remarks": list,
    "unused_inputs": list,
    "needed": list,
    "dropped_inputs": list,
    "repetitions": list,
    "proofs": type(None),
    "only_if_faster": type(None),
    "precision": type(None),
    "assumptions": list,
    "seconds": dict,
    "target": type(None),
    "settings_file": type(None),
}
REPORT_KEYS = {
    "status",
    "reason",
    "exactness",
    "providers",
    "faults",
    "runs",
    "notes",
    "largest",
    "original_seconds",
    "optimized_seconds",
    "cause",
    "sections",
    "skipped",
    "assumptions",
    "unreached",
    "uncounted",
}
RUN_KEYS = {
    "settled",
    "source",
    "sample",
    "dims",
    "seed",
    "original_seconds",
    "optimized_seconds",
    "outputs",
    "noise",
}


def test_proofs(xopt: Xopt) -> None:
    write(TRANSPOSES)
    outcome = xopt("model.onnx", *ONLY, "--prove")
    line = "proofs        1 of 1 rewrites proved for all sizes from 0: 1 same bits"
    assert (outcome.code, line in outcome.out) == (0, True)
    proofs = xopt("model.onnx", *ONLY, "--prove", "--json").json["proofs"]
    assert proofs["grades"]["same bits"] == 1
    (step,) = proofs["steps"]
    assert (step["pattern"], step["grade"], step["reason"]) == (
        "TransposeTranspose",
        "same bits",
        "",
    )


def test_only_proved_rewrites_are_applied(xopt: Xopt) -> None:
    write(TRANSPOSES)
    outcome = xopt("model.onnx", *ONLY, "--strict-proof", "--json")
    assert (outcome.code, outcome.json["proofs"]["refused"]) == (0, [])
    assert outcome.json["patterns"] == {"TransposeTranspose": 1}


def test_proofs_are_evidence_about_a_model_that_does_not_run(xopt: Xopt) -> None:
    write(TRANSPOSES.replace("Relu(", "acme.Unknown("), domains={"acme": 1})
    outcome = xopt("model.onnx", *ONLY, "--prove")
    assert outcome.code == 3
    assert ": 1 of 1 rewrites proved" in outcome.err
    assert "proved" not in xopt("model.onnx", *ONLY).err


def test_certificates(xopt: Xopt) -> None:
    write(TRANSPOSES)
    outcome = xopt("model.onnx", *ONLY, "-o", "out.onnx", "--certificate", "c.json")
    assert outcome.code == 0
    assert outcome.summary["written"] == "out.onnx, c.json"
    again = xopt("verify", "model.onnx", "out.onnx", "--certificate", "c.json")
    assert again.code == 0
    assert again.out.startswith("equal: ")
    other = xopt("verify", "out.onnx", "model.onnx", "--certificate", "c.json")
    assert values_in(other.error)[:2] == ["c.json", "out.onnx"]
    document = xopt("verify", "model.onnx", "out.onnx", "--certificate", "c.json", "--json").json
    assert (document["grade"], document["reason"]) == ("same bits", "")
    Path("c.json").write_text("{}")
    damaged = xopt("verify", "model.onnx", "out.onnx", "--certificate", "c.json")
    assert (damaged.code, damaged.err.count("\n")) == (2, 1)


def test_json(xopt: Xopt) -> None:
    given = write(TRANSPOSES).stat().st_size
    outcome = xopt("model.onnx", *ONLY, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    summary = outcome.json
    assert {key: type(value) for key, value in summary.items()} == KEYS
    assert summary["model"] == "model.onnx"
    assert summary["written"] == ["model.opt.onnx"]
    assert (summary["nodes_before"], summary["nodes_after"]) == (3, 1)
    assert summary["operators_before"] == {"Relu": 1, "Transpose": 2}
    assert summary["operators_after"] == {"Relu": 1}
    assert summary["patterns"] == {"TransposeTranspose": 1}
    assert summary["exactness"] == "exact"
    assert (summary["bytes_before"], summary["bytes_after"]) == (
        given,
        Path("model.opt.onnx").stat().st_size,
    )
    (report,) = summary["verification"]
    assert report.keys() == REPORT_KEYS
    assert (report["status"], report["providers"]) == ("equal", ["cpu"])
    assert len(report["runs"]) >= 6
    assert all(
        run.keys() == RUN_KEYS and run["dims"].keys() == {"a", "b"} for run in report["runs"]
    )
    assert report["runs"][0]["dims"] != report["runs"][1]["dims"]


@pytest.mark.parametrize("more", [("-v",), ("-vv",), ("-q",), ("--no-verify", "--dry-run")])
def test_json_is_alone_on_standard_output(xopt: Xopt, more: tuple[str, ...]) -> None:
    write(TRANSPOSES)
    outcome = xopt("model.onnx", "--json", *more)
    assert outcome.json.keys() == KEYS.keys()
    assert ("[xoptim]" in outcome.err) == more[0].startswith("-v")


def test_json_of_odd_numbers(xopt: Xopt) -> None:
    """Infinities and NaN are not JSON, so they are text."""
    write(
        "agraph (float[n] x) => (float[n] y, float[n] z) <float z0 = {0}> { d = Div(x, z0) "
        "y = Sub(d, d) z = Relu(x) }"
    )
    outcome = xopt("model.onnx", "--json")
    assert outcome.code == 3  # y is NaN whatever is fed

    def fail(text: str) -> None:
        raise AssertionError(text)

    json.loads(outcome.out, parse_constant=fail)


def test_detailed_summary(xopt: Xopt) -> None:
    write(TRANSPOSES)
    outcome = xopt("model.onnx", *ONLY, "-v")
    rows = {
        line.split("  ")[0].strip(): line.split()
        for line in outcome.out.splitlines()
        if line.strip()
    }
    assert rows["operator"] == ["operator", "before", "after"]
    assert rows["Transpose"] == ["Transpose", "2"]
    assert rows["Relu"] == ["Relu", "1", "1"]
    assert rows["all nodes"] == ["all", "nodes", "3", "1"]
    assert rows["TransposeTranspose"] == ["TransposeTranspose", "1"]


def test_summary_of_nothing(xopt: Xopt) -> None:
    write(RELU)
    lines = xopt("model.onnx").out.splitlines()
    assert lines[0].startswith("nodes         1 (")
    assert [line.split()[0] for line in lines[1:]] == [
        "size",
        "verification",
        "time",
        "written",
    ]


def test_summary_of_hardly_a_change(xopt: Xopt) -> None:
    """One line tells all of it."""
    relus = " ".join(f"y{place} = Tanh(y{place - 1})" for place in range(1, 120))
    write(f"agraph (float[a,b] y0) => (float[a,b] y) {{ {relus} t = Relu(y119) y = Relu(t) }}")
    lines = xopt("model.onnx").out.splitlines()
    assert lines[0] == "nodes         121 → 120 (Idempotent 1)"
    assert [line.split()[0] for line in lines[1:]] == [
        "size",
        "verification",
        "time",
        "written",
    ]


def test_summary(xopt: Xopt) -> None:
    write(TRANSPOSES)
    outcome = xopt("model.onnx", *ONLY)
    assert outcome.err == ""
    rows = {
        line.split("  ")[0].strip(): line.split()
        for line in outcome.out.splitlines()
        if line.strip()
    }
    assert " ".join(rows["nodes"]) == "nodes 3 → 1 (67% fewer)"
    assert re.fullmatch(r"size +\d+ B → \d+ B", " ".join(rows["size"]))
    assert re.fullmatch(r"time \d+\.\d s", " ".join(rows["time"]))
    assert re.fullmatch(
        r"verification equal on cpu: \d+ runs, no difference", " ".join(rows["verification"])
    )
    assert rows["written"] == ["written", "model.opt.onnx"]


def test_summary_names_operators_that_the_checker_does_not_know(xopt: Xopt) -> None:
    text = (
        "agraph (float[a,2] x, float[2] w) "
        "=> (float[a,2] y) <float two = {2}, float e = {0.001}, int64[1] i = {-1}> { "
        "q = Pow(x, two) m = ReduceMean(q, i) v = Add(m, e) s = Sqrt(v) r = Reciprocal(s) "
        "t = Mul(x, r) y = Mul(w, t) }"
    )
    write(parse(text))
    assert "checker" not in xopt("model.onnx").out
    outcome = xopt("model.onnx", "--patterns", "default+onnxruntime")
    assert "SimplifiedLayerNormalization" in outcome.summary["checker"]
    found = xopt("model.onnx", "--patterns", "default+onnxruntime", "--json").json
    assert found["unchecked_operators"] == ["SimplifiedLayerNormalization"]


def test_summary_without_verification(xopt: Xopt) -> None:
    write(TRANSPOSES)
    outcome = xopt("model.onnx", *ONLY, "--no-verify")
    assert outcome.code == 0
    assert outcome.summary["verification"] == "skipped: --no-verify"
    assert types_in("model.opt.onnx") == ["Relu"]


def test_names_that_look_like_markup(xopt: Xopt) -> None:
    model = parse("agraph (float[n] x) => (float[n] y) { t = Neg(x) y = Exp(t) }")
    model.graph.node[0].op_type = "[/bold]:smile:"
    write(model, "[red]:cat:.onnx")
    outcome = xopt("[red]:cat:.onnx", "-v", "-o", "[red]:dog:.onnx")
    assert outcome.code == 3
    assert "[/bold]:smile:" in outcome.out
    assert outcome.summary["written"] == "[red]:dog:.onnx"
    assert "[/bold]:smile:" in xopt("stats", "[red]:dog:.onnx").out


def test_quiet(xopt: Xopt) -> None:
    write(TRANSPOSES)
    assert xopt("model.onnx", "-q") == (0, "", "")
    assert types_in("model.opt.onnx") == ["Relu"]


def test_a_line_a_round(xopt: Xopt) -> None:
    write(TRANSPOSES)
    outcome = xopt("model.onnx", "-v")
    lines = [line for line in outcome.out.splitlines() if line.startswith("[xoptim]")]
    assert len(lines) >= 2
    assert all(
        re.fullmatch(r"\[xoptim\] agraph\b.* round \d+: \d+ match.*, \d+ applied, \d+ nodes", line)
        for line in lines
    )
    assert not any("refused" in line for line in lines)


def test_reasons(xopt: Xopt) -> None:
    write("agraph (float[a,b,c] x) => (y) { t = Relu(x) y = Transpose <perm = [1, 0, 2]> (t) }")
    outcome = xopt("model.onnx", "-vv", "--patterns", "IdentityTranspose")
    (line,) = [line for line in outcome.out.splitlines() if "IdentityTranspose refused at" in line]
    place = re.search(r": .+ \((.+\.py):(\d+)\)$", line)
    assert place is not None
    text = Path(place[1]).read_text(encoding="utf-8").splitlines()
    assert Path(place[1]).name == "identity_operator.py"
    assert text[int(place[2]) - 1].strip()


def test_the_environment_asks_for_reasons(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    write("agraph (float[a,b,c] x) => (y) { t = Relu(x) y = Transpose <perm = [1, 0, 2]> (t) }")
    monkeypatch.setenv("PATTERN", "IdentityTranspose")
    outcome = xopt("model.onnx", "-q")
    assert "IdentityTranspose refused " in outcome.out
    monkeypatch.setenv("PATTERN", "IdentityTranspoze")
    assert "'IdentityTranspose'?" in xopt("model.onnx", "-q").error


def test_a_model_that_changes_nothing(xopt: Xopt) -> None:
    write(RELU)
    outcome = xopt("model.onnx")
    assert outcome.code == 0
    assert "applied" not in outcome.out
    assert types_in("model.opt.onnx") == ["Relu"]
    assert GraphBuilder("model.opt.onnx").get_shape("y") == GraphBuilder("model.onnx").get_shape(
        "y"
    )


# -------------------------------------------------------------------- how it is done


@pytest.mark.parametrize(("options", "tagged"), [((), True), (("--no-tag",), False)])
def test_nodes_name_their_pattern(xopt: Xopt, options: tuple[str, ...], tagged: bool) -> None:
    write(
        "agraph (float[a,b,c] x) => (float[b,c,a] y) { t = Transpose<perm = [0,2,1]>(x) "
        "y = Transpose<perm = [2,1,0]>(t) }"
    )
    assert xopt("model.onnx", *options).code == 0
    (node,) = onnx.load("model.opt.onnx").graph.node
    assert {p.key: p.value for p in node.metadata_props} == (
        {"xoptim.pattern": "TransposeTranspose"} if tagged else {}
    )


def test_the_larger_match_wins_when_asked_for(xopt: Xopt) -> None:
    write("agraph (float[n] x) => (float[n] y) { a = Neg(x) b = Neg(a) y = Relu(b) }")
    for strategy in ("priority", "largest"):
        assert xopt("model.onnx", "--strategy", strategy, "-q").code == 0
        assert types_in("model.opt.onnx") == ["Relu"]
    assert xopt("model.onnx", "--strategy", "smallest").code == 2


# -------------------------------------------------------------------- operator sets

GELU = """agraph (float[2,8] x) => (float[2,8] y) {
    r = Constant <value = float {1.4142135381698608}> () o = Constant <value = float {1.0}> ()
    h = Constant <value = float {0.5}> ()
    d = Div(x, r) e = Erf(d) a = Add(e, o) m = Mul(x, a) y = Mul(m, h)
}"""


def test_a_hint_at_a_newer_operator_set(xopt: Xopt) -> None:
    write(GELU, opset=17)
    said = xopt("model.onnx")
    assert re.search(
        r"^hint +4 fewer nodes with --opset 20 \(the model has operator set 17\)$",
        said.out,
        re.M,
    )
    document = json.loads(xopt("model.onnx", "--json").out)
    hint, other = document["hints"]
    printed = [line for line in said.out.splitlines() if line.startswith("hint ")]
    assert [
        f"hint          {text.removeprefix('hint: ')}" for text in document["remarks"]
    ] == printed
    assert (hint["opset"], other["option"]) == (20, "--include onnxruntime")
    report = json.loads(xopt("model.onnx", "--json", "--opset", "20").out)
    assert report["hints"] == []
    assert xopt("model.onnx", "--json", "--include", "onnxruntime").json["hints"] == []
    assert hint["patterns"].items() <= report["patterns"].items()
    assert xopt("model.onnx", "--drop", *hint["patterns"], "--json").json["hints"] == [other]


def test_the_summary_names_what_folding_left(xopt: Xopt) -> None:
    write(
        "agraph (float[m] x) => (float[m] y) <int64[1] size = {300000}> { "
        "n = ConstantOfShape(size) t = Add(x, n) y = Relu(t) }"
    )
    outcome = xopt("model.onnx", "--patterns", "TransposeTranspose")
    assert outcome.summary["not folded"].startswith("1 ConstantOfShape: ")
    assert values_in(outcome.summary["not folded"]) == ["1", "1.2", "--max-growth", "1.0"]
    assert Path("model.opt.onnx").stat().st_size < 1000
    summary = xopt("model.onnx", "--max-growth", "500kB", "--json").json
    assert summary["unfolded"] == {
        "operators": {"ConstantOfShape": 1},
        "bytes": 1_199_992,
        "allowed_bytes": 500_000,
    }
    assert summary["remarks"][0].startswith("not folded: 1 ConstantOfShape: ")
    outcome = xopt("model.onnx", "--patterns", "TransposeTranspose", "--max-growth", "unlimited")
    assert "unfolded" not in outcome.out
    assert Path("model.opt.onnx").stat().st_size > 1_200_000
    assert "'0.1'" in xopt("model.onnx", "--max-growth", "0.1").error


@pytest.mark.parametrize(
    "words", [("fast", "model.onnx"), ("model.onnx", "-O"), ("model.onnx", "--fast")]
)
def test_fast(xopt: Xopt, words: tuple[str, ...]) -> None:
    write(GELU, opset=13)
    assert xopt(*words).code == 0
    found = onnx.load("model.opt.onnx")
    assert types_in("model.opt.onnx") == ["Gelu"]
    assert next(each.version for each in found.opset_import if not each.domain) >= 20
    assert xopt(*words, "--opset", "17").code == 0
    assert types_in("model.opt.onnx") == ["Gelu"]
    assert {each.domain for each in onnx.load("model.opt.onnx").opset_import} >= {"com.microsoft"}
    Path("fast").write_text("a file")
    assert xopt("fast").code == 2


def test_a_pattern_that_is_included_and_applies_nowhere(xopt: Xopt) -> None:
    write(RELU)
    outcome = xopt("model.onnx", "--include", "GroupQueryAttention", "--include", "onnxruntime")
    (warning,) = outcome.warnings
    assert outcome.code == 0
    assert values_in(warning) == ["--include", "xopt explain MODEL GroupQueryAttention"]


@pytest.mark.parametrize(("lines", "is_told"), [(1, False), (2000, True)])
def test_much_metadata_is_a_hint(xopt: Xopt, lines: int, is_told: bool) -> None:
    model = network(layers=1)
    for node in model.graph.node:
        onnx.helper.set_metadata_props(
            node, {"pkg.torch.onnx.stack_trace": "model.py, 17\n" * lines}
        )
    onnx.save(model, "model.onnx")
    assert ("--strip" in xopt("model.onnx").out) is is_told
    assert "--strip" not in xopt("model.onnx", "--strip").out


def test_the_summary_names_operators_whose_numbers_changed(xopt: Xopt) -> None:
    write(
        "agraph (float[a,b] x) => (float[a,b] y) { two = Constant <value_float = 2.0> () "
        "t = Transpose(x) u = Transpose(t) v = Neg(u) w = Neg(v) y = Mul(w, two) }"
    )
    lines = xopt("model.onnx", "--no-verify").out.splitlines()
    assert lines[1] == "operators     Neg 2 → 0, Transpose 2 → 0, Constant 1 → 0"
    assert not any(
        line.startswith("operators") for line in xopt("model.onnx", "-v").out.splitlines()
    )
