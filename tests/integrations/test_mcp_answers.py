"""Answers for agents are short, and say what they leave out."""

import json
import re
from typing import Any

import pytest

from tests.support import values_in
from xoptim.integrations.mcp.answers import (
    LONGEST_ANSWER,
    LONGEST_LIST,
    LONGEST_TEXT,
    bounded,
    meaning_of,
    remarks_of,
    summary_of,
)


def _operator(name: str, error: float | str, *, is_quantized: bool) -> dict[str, Any]:
    decision = "quantized" if is_quantized else "error or bytes"
    placed = {"node": name, "result": name, "is_quantized": is_quantized, "decision": decision}
    return {**placed, "error": error}


def test_a_quantization_lists_the_operators_in_float32_that_err_most() -> None:
    operators = [_operator(f"q{n}", 0.1, is_quantized=True) for n in range(40)]
    operators += [_operator(f"f{n}", n / 100, is_quantized=False) for n in range(8)]
    operators.append(_operator("worst", "inf", is_quantized=False))
    found, note = summary_of("optimize", {"precision": {"error": 0.01, "operators": operators}})
    assert [each["node"] for each in found["precision"]["operators"]] == [
        "worst", "f7", "f6", "f5", "f4",
    ]  # fmt: skip
    assert found["precision"]["error"] == 0.01
    assert values_in(note) == ["4", "float32", "40"]


def test_an_operator_that_is_quantized_in_another_form_does_not_stay_in_float32() -> None:
    other = _operator("q", 0.5, is_quantized=False) | {"decision": "another form"}
    forms = [_operator("f", error, is_quantized=False) for error in (0.2, 0.1, 0.3)]
    operators = [_operator("q", 0.1, is_quantized=True), other, *forms]
    found, note = summary_of("optimize", {"precision": {"operators": operators}})
    assert [(each["node"], each["error"]) for each in found["precision"]["operators"]] == [
        ("f", 0.1)
    ]
    assert values_in(note) == ["1"]


def test_a_difference_that_is_rounding_is_no_fault() -> None:
    largest = {"equal": False, "fault": "value", "mismatches": 191642}
    report = {"status": "equal", "runs": [1], "faults": [], "largest": largest}
    found, _ = summary_of("verify", [report, report | {"status": "different"}])
    assert [each["largest"] for each in found] == [None, largest]
    (found,), _ = summary_of("verify", [report | {"largest": largest | {"equal": True}}])
    assert found["largest"]["equal"]


def test_an_explanation_lists_two_matches_and_each_reason_once() -> None:
    matches = [{"status": "matches", "reason": "", "others": [1]} for _ in range(5)]
    refusals = [{"status": "refused", "reason": f"reason {n % 2}", "others": []} for n in range(6)]
    found, note = summary_of("explain", {"explanations": [*matches, *refusals]})
    assert [each["status"] for each in found["explanations"]] == ["matches"] * 2 + ["refused"] * 2
    assert all(each["others"] == [] for each in found["explanations"])
    assert values_in(note) == ["7"]


def test_of_one_reason_the_nearest_miss_is_shown() -> None:
    refusals = [{"status": "refused", "reason": "r", "others": [], "at": at} for at in range(3)]
    found, _ = summary_of("explain", {"explanations": refusals})
    assert [each["at"] for each in found["explanations"]] == [0]


def _node(name: str, reason: str = "", **fields: Any) -> dict[str, Any]:
    placed = {"op_type": "Cast", "provider": "CPUExecutionProvider", "is_taken": False}
    return {"name": name, "reason": reason, "is_shape_arithmetic": False, **placed, **fields}


def test_a_placement_lists_a_few_nodes_that_are_left_for_each_reason() -> None:
    nodes = [
        _node("taken", is_taken=True),
        _node("ahead", provider=""),
        _node("shape", is_shape_arithmetic=True),
        *(_node(f"known{n}", "there is no kernel") for n in range(3)),
        _node("unknown"),
        _node("not compiled", "its compiler refuses it", provider=""),
    ]
    placement = {"nodes": nodes, "taken": 1, "partitions": 1, "compiles": True}
    (found,), note = summary_of("place", [placement])
    names = [each["name"] for each in found["nodes"]]
    assert names == ["known0", "known1", "unknown", "not compiled"]
    assert values_in(note) == ["3", "1"], "taken or computed ahead, left for a reason that is shown"
    many = [_node(f"n{n}", f"reason {n}") for n in range(50)]
    (found,), note = summary_of("place", [placement | {"nodes": many}])
    assert len(found["nodes"]) == 20
    assert values_in(note) == ["30"]


def test_where_a_model_does_not_compile_no_node_is_said_to_be_taken() -> None:
    nodes = [_node(f"n{n}", provider="") for n in range(5)]
    placement = {"nodes": nodes, "taken": 0, "partitions": 0, "compiles": False}
    (found,), note = summary_of("place", [placement])
    assert found["nodes"] == []
    assert values_in(note) == ["5"]


def test_differences_are_listed_once_for_each_operator() -> None:
    def difference(kind: str, detail: str) -> dict[str, Any]:
        return {"kind": kind, "part": "node", "name": "n", "detail": detail}

    differences = [difference("removed", "Mul") for _ in range(5)]
    differences += [difference("added", "Gelu"), *(difference("added", f"A{n}") for n in range(30))]
    found, note = summary_of("diff", {"differences": differences})
    kept = [(each["kind"], each["detail"]) for each in found["differences"]]
    assert kept[:3] == [("removed", "Mul"), ("removed", "Mul"), ("added", "Gelu")]
    assert len(kept) == 20
    assert re.match(r"3 removed .* 13 added ", note)
    removed, added = remarks_of("diff", {"differences": differences})
    assert re.fullmatch("removed .*: Mul 5", removed)
    assert re.match("added .*: Gelu 1, A0 1, ", added)
    assert list(remarks_of("diff", {"differences": differences[:20]})) == []


def test_an_optimization_has_no_empty_fields_and_no_times() -> None:
    report = {"status": "equal", "notes": [], "original_seconds": 0.5}
    result = {"written": ["m"], "nodes_after": 0, "report": None, "is_on": False, "seconds": {}}
    found, note = summary_of("optimize", {**result, "verification": [report], "fault": ""})
    kept = {"written": ["m"], "nodes_after": 0, "is_on": False}
    assert found == {**kept, "verification": [{"status": "equal"}]}
    assert note == ""


def test_statistics_list_what_costs_most() -> None:
    costs = {
        key: {f"{key}{n}": {"flops": n} for n in range(12)} for key in ("by_operator", "by_layer")
    }
    ports = {f"x{n}": "float[n]" for n in range(25)}
    stats = {"inputs": ports, "outputs": {"y": "float"}, "repeats": [], "costs": costs}
    found, note = summary_of("stats", stats)
    assert list(found["costs"]["by_layer"])[:2] == ["by_layer11", "by_layer10"]
    assert len(found["costs"]["by_operator"]) == 8
    assert list(found["inputs"]) == list(ports)[:20]
    assert values_in(note) == ["4", "costs", "4", "costs", "5"]


def test_an_optimization_for_a_target_tells_what_was_chosen_for_it() -> None:
    unfit = [
        {"pattern": name, "count": count, "reason": "slower"}
        for name, count in (("BiasGelu", 2), ("Attention", 1))
    ]
    precision = {"target": "qnn", "scheme": "float16", "reason": ""}
    result = {"precision": precision, "target": {"target": "qnn", "unfit": unfit}}
    converted, unused = remarks_of("optimize", result)
    assert re.search("float16 .*qnn; `precision`", converted)
    assert re.search(r"qnn: BiasGelu 2, Attention 1 \(slower\)$", unused)
    asked = precision | {"target": ""}
    assert list(remarks_of("optimize", {"precision": asked, "target": None})) == []


def test_branches_that_did_not_run_are_a_remark() -> None:
    branch = "branch 'then' of If 'y'"
    report = {"status": "equal", "unreached": [branch], "uncounted": ""}
    (remark,) = remarks_of("verify", [report])
    assert remark.endswith(f" 1 branch not run ({branch})")
    assert list(remarks_of("optimize", {"verification": [report]})) == [remark]
    assert list(remarks_of("verify", [{**report, "status": "different"}])) == []
    (remark,) = remarks_of("verify", [{"status": "equal", "unreached": [], "uncounted": branch}])
    assert remark.endswith(branch)
    assert list(remarks_of("stats", {})) == list(remarks_of("optimize", None)) == []


def test_a_target_whose_package_is_missing() -> None:
    missing = {"fault": "the target 'tensorrt' is not installed: pip", "install": "pip install it"}
    no_device = {"fault": "the execution provider finds no device here", "install": "pip"}
    (remark,) = remarks_of("place", [missing, no_device, {"nodes": []}])
    assert re.search(r'\(pip install it\), .* target="onnx" .* target="webnn"', remark)


def test_the_meaning_of_an_exit_code() -> None:
    assert meaning_of("stats", 0, {0: "equal"}) == "done"
    assert meaning_of("stats", 130, {130: "interrupted"}) == "interrupted"
    assert "unexpectedly" in meaning_of("stats", -11, {})


def test_a_quantized_model_is_not_said_to_be_equal() -> None:
    precision = {"scheme": "int8", "error": 0.0076, "tolerance": 0.01, "reason": ""}
    meaning = meaning_of("optimize", 0, {}, {"precision": precision})
    assert values_in(meaning) == ["float32", "int8", "0.76%", "1.00%"]
    plain = meaning_of("optimize", 0, {}, {"precision": None})
    assert re.match("written; .*result .* equal ", plain)
    assert plain == meaning_of("optimize", 0, {}, {"precision": precision | {"reason": "none"}})
    assert "differs" in meaning_of("optimize", 1, {}, {"precision": precision})


def test_an_answer_is_bounded() -> None:
    short = {"exit_code": 0, "meaning": "done", "result": {"a": [1, None, 2.5]}, "messages": ["m"]}
    assert bounded(short) == short
    names = {f"{'n' * LONGEST_TEXT}{number}": number for number in range(3)}
    result = {"names": names, "many": list(range(LONGEST_LIST + 1)), "text": "t" * 5000}
    found = bounded({**short, "result": result})
    assert found["result"]["many"] == list(range(LONGEST_LIST))
    assert found["result"]["text"] == "t" * LONGEST_TEXT + "..."
    assert list(found["result"]["names"].values()) == [0, 1, 2]
    cuts = [LONGEST_TEXT, 4, LONGEST_LIST, 1]
    assert values_in(found["messages"][-1]) == [str(number) for number in cuts]


@pytest.mark.parametrize(
    "result",
    [
        ["\u2028" * 10_000] * 500,
        {f"{number}{'k' * 5000}": ["v" * 5000] * 100 for number in range(100)},
        [[[["x" * 100] * 12] * 20] * 12] * 12,
        "\ud800" * 1_000_000,
    ],
    ids=["texts", "keys", "depth", "surrogates"],
)
def test_an_answer_of_any_form_is_bounded(result: Any) -> None:
    answer = {"exit_code": 0, "meaning": "done", "result": result, "messages": ["m" * 9999] * 9999}
    found = bounded(answer)
    assert len(json.dumps(found)) <= LONGEST_ANSWER
    json.dumps(found, ensure_ascii=False).encode()
    assert found["result"] is not None
    assert "; cut: " in found["messages"][-1]


def test_a_result_that_cannot_be_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xoptim.integrations.mcp.answers.LONGEST_ANSWER", 1000)
    row = {str(number): 1 for number in range(64)}
    result = dict.fromkeys(row, row)
    answer = {"exit_code": 0, "meaning": "done", "result": result, "messages": []}
    found = bounded(answer)
    (note,) = found["messages"]
    assert "1,000" in note
    assert found == {**answer, "result": None, "messages": [note]}
