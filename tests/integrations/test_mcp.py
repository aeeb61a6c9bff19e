"""The server of the Model Context Protocol, with the client of the SDK over standard streams."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.cli.command import Xopt, check_document, runner
from tests.support import parse, values_in
from xoptim.cli.exit_codes import MEANINGS
from xoptim.integrations.mcp import SKILL, McpError, Tools, server

TEXT = "agraph (float[n,4] x) => (float[n,4] y) { t = Neg(x) u = Neg(t) y = Relu(u) }"
SERVER = "import sys; from xoptim.cli.main import run; sys.exit(run(['mcp', sys.argv[1]]))"
Ask = Callable[..., Awaitable[Any]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a model, next to one outside."""
    folder = tmp_path / "models"
    folder.mkdir()
    onnx.save(parse(TEXT), folder / "model.onnx")
    onnx.save(parse(TEXT.replace("Relu", "Abs")), folder / "other.onnx")
    onnx.save(parse(TEXT), tmp_path / "outside.onnx")
    return folder


@pytest.fixture
def xopt(capsys: pytest.CaptureFixture[str]) -> Xopt:
    """Runs a command line."""
    return runner(capsys)


def served(root: Path, talk: Callable[[Ask, list[Any]], Awaitable[None]]) -> None:
    """Talk to a server over standard streams: ask its tools, and read their descriptions."""
    sdk = pytest.importorskip("mcp")

    async def run() -> None:
        environment = {name: value for name, value in os.environ.items() if value}
        parameters = sdk.StdioServerParameters(
            command=sys.executable, args=["-c", SERVER, str(root)], env=environment
        )
        async with (
            sdk.stdio_client(parameters) as (read, write),
            sdk.ClientSession(read, write) as session,
        ):
            await session.initialize()
            tools = list((await session.list_tools()).tools)

            async def ask(name: str, **arguments: Any) -> Any:
                return await session.call_tool(name, arguments)

            await talk(ask, tools)

    asyncio.run(run())


@pytest.mark.slow
def test_an_agent_optimizes_and_explains(root: Path) -> None:
    async def talk(ask: Ask, tools: list[Any]) -> None:
        names = [tool.name for tool in tools]
        assert names == ["optimize", "explain", "place", "verify", "stats", "diff"]
        found = (await ask("stats", model="model.onnx")).structured_content
        assert (found["exit_code"], found["result"]["nodes"]) == (0, 3)
        found = (await ask("optimize", model="model.onnx", output="small.onnx")).structured_content
        assert (found["exit_code"], found["messages"]) == (0, [])
        assert found["result"]["nodes_after"] == 1
        found = (await ask("verify", original="model.onnx", other="other.onnx")).structured_content
        assert found["exit_code"] == 1
        assert "differ" in found["meaning"]
        found = (await ask("explain", model="model.onnx", pattern="NegNeg")).structured_content
        assert found["exit_code"] == 0
        matched, refused = found["result"]["explanations"]
        assert (matched["status"], matched["reason"]) == ("matches", "")
        assert (refused["status"], values_in(refused["reason"])) == ("refused", ["x"])
        found = (await ask("place", model="model.onnx", target="onnx")).structured_content
        assert (found["exit_code"], found["result"][0]["target"]) == (0, "onnx")
        found = (await ask("diff", first="model.onnx", second="small.onnx")).structured_content
        assert found["result"]["differences"]
        refused = await ask("stats", model="../outside.onnx")
        assert refused.is_error
        assert "'../outside.onnx'" in refused.content[0].text
        refused = await ask("optimize", model="model.onnx", max_nodes=3)
        assert refused.is_error
        assert "max_nodes" in refused.content[0].text

    served(root, talk)
    assert [node.op_type for node in onnx.load(root / "small.onnx").graph.node] == ["Relu"]


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("stats", {"model": "../outside.onnx"}, "'../outside.onnx' is not a path in the folder"),
    ("stats", {"model": "none.onnx"}, "there is no file 'none.onnx' in "),
    ("stats", {}, "stats: the argument 'model' is missing"),
    ("stats", {"model": 3}, "stats: the argument 'model' must be a string, not 3"),
    ("stats", {"model": "m.onnx", "modle": ""}, "stats has no argument 'modle'; it has model, det"),
    (
        "optimize",
        {"model": "model.onnx", "fix": "n=1"},
        "optimize: the argument 'fix' must be a list of strings, such as [\"batch=1\"], not 'n=1'",
    ),
    (
        "verify",
        {"original": "model.onnx", "other": "other.onnx", "rtol": "much"},
        "verify: the argument 'rtol' must be a number, not 'much'",
    ),
    (
        "place",
        {"model": "model.onnx", "target": "onnx", "detail": "perhaps"},
        "place: the argument 'detail' must be true or false, not 'perhaps'",
    ),
    ("place", {"model": "model.onnx", "target": "gpu"}, "for a GPU, use cuda, webgpu or tensorrt"),
    (
        "optimize",
        {"model": "model.onnx", "target": "qnn"},
        'qnn needs fixed shapes, but n is dynamic; fix=["NAME=SIZE"] fixes a dimension',
    ),
]
"""Calls with a mistake: the tool, its arguments, and a part of the message."""


@pytest.mark.slow
def test_wrong_arguments_get_the_same_object(root: Path) -> None:
    async def talk(ask: Ask, tools: list[Any]) -> None:
        for tool, arguments, message in REFUSED:
            refused = await ask(tool, **arguments)
            assert refused.is_error, tool
            answer = refused.structured_content
            check_document("mcp", answer)
            assert json.loads(refused.content[0].text) == answer
            assert (answer["exit_code"], answer["result"]) == (2, None)
            assert answer["meaning"].startswith("wrong arguments")
            assert message in "\n".join(answer["messages"])
        for tool in tools:
            assert tool.output_schema["properties"].keys() == answer.keys()
            assert "wrong arguments" in tool.output_schema["description"]

    served(root, talk)


@pytest.mark.slow
def test_tools_have_the_options_of_the_command(root: Path) -> None:
    near = TEXT.replace("{ t", "<float c = {1.01}> { t").replace("Relu(u)", "Mul(u, c)")
    onnx.save(parse(TEXT.replace("Relu(u)", "Identity(u)")), root / "model.onnx")
    onnx.save(parse(near), root / "near.onnx")

    async def talk(ask: Ask, tools: list[Any]) -> None:
        known = {tool.name: set(tool.input_schema["properties"]) for tool in tools}
        assert "software_device" in known["optimize"]
        found = await ask("optimize", model="model.onnx", software_device=True)
        assert found.is_error
        (message,) = found.structured_content["messages"]
        assert re.search('software_device=true .* target="webgpu" ', message)
        pair = {"original": "model.onnx", "other": "near.onnx"}
        found = (await ask("verify", **pair)).structured_content
        assert found["exit_code"] == 1
        assert "differ" in found["meaning"]
        found = await ask("verify", **pair, dim=["n=3"], rtol=0.1, atol=0.1, detail=True)
        found = found.structured_content
        assert found["exit_code"] == 0
        assert {run["dims"]["n"] for run in found["result"][0]["runs"]} == {3}
        found = await ask("explain", model="model.onnx", pattern="NegNeg", target="onnx")
        (use,) = found.structured_content["result"]["target"]
        assert re.fullmatch("NegNeg is used .*onnx", use)

    served(root, talk)


@pytest.mark.slow
def test_several_patterns_are_included(root: Path) -> None:
    async def talk(ask: Ask, _: list[Any]) -> None:
        found = await ask("optimize", model="model.onnx", include="QuickGelu, FastGelu")
        assert found.structured_content["exit_code"] == 0
        unused = [line for line in found.structured_content["messages"] if "nowhere" in line]
        assert ["QuickGelu" in unused[0], "FastGelu" in unused[1]] == [True, True]

    served(root, talk)


@pytest.mark.slow
def test_a_conversion_for_a_target_is_told(root: Path) -> None:
    text = "agraph (float[2,8] x, float[8,8] w) => (float[2,8] y) { t = MatMul(x, w) y = Exp(t) }"
    onnx.save(parse(text), root / "model.onnx")

    async def talk(ask: Ask, _: list[Any]) -> None:
        found = (await ask("optimize", model="model.onnx", target="coreml")).structured_content
        assert found["exit_code"] == 3
        assert ["float16", "precision"] in [values_in(message) for message in found["messages"]]

    served(root, talk)


@pytest.mark.parametrize("tool", ["explain", "place", "stats"])
def test_nothing_is_equal_where_one_model_is_read(root: Path, tool: str) -> None:
    tools = Tools(root, MEANINGS)
    words = {"explain": ["NegNeg"], "place": ["onnx"]}.get(tool, [])
    found = getattr(tools, tool)("model.onnx", *words)
    assert found["exit_code"] == 0
    assert found["meaning"].startswith("done")


def test_exit_codes_of_a_difference(root: Path) -> None:
    tools = Tools(root, MEANINGS)
    assert "graphs differ" in tools.diff("model.onnx", "other.onnx")["meaning"]
    assert tools.diff("model.onnx", "model.onnx")["meaning"].startswith("no difference")


@pytest.mark.parametrize(
    "path", ["../outside.onnx", "/etc/passwd", "", ".", "a/../../outside.onnx", "link.onnx"]
)
def test_paths_are_confined(root: Path, path: str) -> None:
    (root / "link.onnx").symlink_to(root.parent / "outside.onnx")
    tools = Tools(root, MEANINGS)
    with pytest.raises(McpError, match="not a path"):
        tools.stats(path)
    with pytest.raises(McpError, match="not a path"):
        tools.optimize("model.onnx", output=path or "..")
    assert sorted(each.name for each in root.iterdir()) == ["link.onnx", "model.onnx", "other.onnx"]


def test_words_are_no_options(root: Path) -> None:
    found = Tools(root, MEANINGS).explain("model.onnx", "--rewrite=../rules.txt")
    assert found["exit_code"] == 2
    assert "'--rewrite=../rules.txt'" in found["messages"][0]
    onnx.save(parse(TEXT), root / "-o.onnx")
    assert Tools(root, MEANINGS).stats("-o.onnx")["exit_code"] == 0


def _omitted(whole: Any, short: Any) -> Iterator[tuple[str, Any]]:
    """The fields that a short document omits; fails where it has others, or other values."""
    if isinstance(whole, dict):
        assert short.keys() <= whole.keys()
        for name, value in whole.items():
            if name in short:
                yield from _omitted(value, short[name])
            else:
                yield name, value
    elif isinstance(whole, list):
        for one, other in zip(whole, short, strict=True):
            yield from _omitted(one, other)
    else:
        assert short == whole


def test_answers_are_as_their_schemas_say(root: Path) -> None:
    tools = Tools(root, MEANINGS)
    answers = {
        "optimize": tools.optimize("model.onnx", detail=True),
        "explain": tools.explain("model.onnx", "NegNeg"),
        "place": tools.place("model.onnx", "onnx"),
        "verify": tools.verify("model.onnx", "other.onnx"),
        "stats": tools.stats("model.onnx"),
        "diff": tools.diff("model.onnx", "other.onnx"),
    }
    for name, answer in answers.items():
        check_document("mcp", answer)
        check_document(name, answer["result"])
    short = tools.optimize("model.onnx")
    check_document("mcp", short)
    omitted = dict(_omitted(answers["optimize"]["result"], short["result"]))
    assert {"report", "seconds", "runs", "hints", "faults", "original_seconds"} <= omitted.keys()
    assert all(
        not value or name.endswith("seconds") or name == "runs" for name, value in omitted.items()
    )
    refused = tools.explain("model.onnx", "NoSuchPattern")
    check_document("mcp", refused)
    assert (refused["exit_code"], refused["result"]) == (2, None)


def test_long_lists_are_omitted(root: Path) -> None:
    tools = Tools(root, MEANINGS)
    for detail in (False, True):
        checked = tools.verify("model.onnx", "model.onnx", detail=detail)["result"][0]
        assert bool(checked["runs"]) is detail
        placed = tools.place("model.onnx", "onnx", detail=detail)
        assert len(placed["result"][0]["nodes"]) == (3 if detail else 0)
        notes = [re.findall(r"\d+|detail=\w+", note) for note in placed["messages"]]
        assert notes == ([] if detail else [["3", "detail=true"]])
    made = tools.optimize("model.onnx", output="small.onnx", opset="newest")
    assert "runs" not in made["result"]["verification"][0]
    assert onnx.load(root / "small.onnx").opset_import[0].version > 18


def test_assumptions_of_all_tools_that_use_them(root: Path) -> None:
    tools = Tools(root, MEANINGS)
    tools.optimize("model.onnx", output="finite.onnx", assume=["finite"])
    found = tools.verify("model.onnx", "finite.onnx")["result"][0]
    assert found["assumptions"] == []
    assert [values_in(note) for note in found["notes"]] == [["finite"]]
    found = tools.verify("model.onnx", "finite.onnx", assume=["finite"])["result"][0]
    assert (found["assumptions"], found["notes"]) == (["finite"], [])
    explained = tools.explain("model.onnx", "NegNeg", assume=["n >= 2", "finite"])["result"]
    assert sorted(explained["assumptions"]) == ["finite", "n >= 2"]


def test_each_reason_of_a_refusal_is_given_once(root: Path) -> None:
    nodes = " ".join(f"t{n} = Neg(x) u{n} = Neg(t{n}) s{n} = Abs(t{n})" for n in range(9))
    text = f"agraph (float[n,4] x) => (float[n,4] u0, float[n,4] s0) {{ {nodes} }}"
    onnx.save(parse(text), root / "many.onnx")
    tools = Tools(root, MEANINGS)
    whole = tools.explain("many.onnx", "NegNeg", detail=True)["result"]["explanations"]
    found = tools.explain("many.onnx", "NegNeg")
    shown = found["result"]["explanations"]
    assert {each["reason"] for each in shown} == {each["reason"] for each in whole}
    assert len(shown) < len(whole)
    assert found["messages"][-1].startswith(f"{len(whole) - len(shown)} more nodes")


def test_what_goes_wrong(root: Path) -> None:
    with pytest.raises(McpError, match=r"'none\.onnx' .* model\.onnx, other\.onnx"):
        Tools(root, MEANINGS).stats("none.onnx")
    with pytest.raises(McpError, match=r" stats .* 0\.01 seconds"):
        Tools(root, MEANINGS, seconds=0.01).stats("model.onnx")
    with pytest.raises(McpError, match=r"folder .*none'"):
        server(root / "none", MEANINGS)


def test_the_skill_names_all_tools(xopt: Xopt) -> None:
    text = SKILL.read_text(encoding="utf-8")
    names = ("optimize", "explain", "place", "verify", "stats", "diff")
    assert all(f"`{name} " in text for name in names)
    assert xopt("mcp", "--skill").out.strip() == text.strip()


def test_without_the_sdk(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Missing:
        """A library that is not installed."""

        def __getattr__(self, name: str) -> Any:
            raise ImportError(name)

    monkeypatch.setattr("xoptim.integrations.mcp.serving._sdk", Missing())
    with pytest.raises(McpError, match=r"'xoptim\[mcp\]'"):
        server(root, MEANINGS)
