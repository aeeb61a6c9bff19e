"""The server of the Model Context Protocol, with the client of the SDK over standard streams."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.cli.command import Xopt, check_document, runner
from tests.support import parse
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


def served(root: Path, talk: Callable[[Ask, list[str]], Awaitable[None]]) -> None:
    """Talk to a server over standard streams."""
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
            tools = [tool.name for tool in (await session.list_tools()).tools]

            async def ask(name: str, **arguments: Any) -> Any:
                return await session.call_tool(name, arguments)

            await talk(ask, tools)

    asyncio.run(run())


@pytest.mark.slow
def test_an_agent_optimizes_and_explains(root: Path) -> None:
    async def talk(ask: Ask, tools: list[str]) -> None:
        assert tools == ["optimize", "explain", "place", "verify", "stats", "diff"]
        found = (await ask("stats", model="model.onnx")).structured_content
        assert (found["exit_code"], found["result"]["nodes"]) == (0, 3)
        found = (await ask("optimize", model="model.onnx", output="small.onnx")).structured_content
        assert (found["exit_code"], found["messages"]) == (0, [])
        assert found["result"]["nodes_after"] == 1
        found = (await ask("verify", original="model.onnx", other="other.onnx")).structured_content
        assert found["exit_code"] == 1
        assert found["meaning"].startswith("the models differ")
        found = (await ask("explain", model="model.onnx", pattern="NegNeg")).structured_content
        assert found["exit_code"] == 0
        told = [(each["status"], each["reason"]) for each in found["result"]["explanations"]]
        assert told == [("matches", ""), ("refused", "'x' is not produced by Neg")]
        found = (await ask("place", model="model.onnx", target="onnx")).structured_content
        assert (found["exit_code"], found["result"][0]["target"]) == (0, "onnx")
        found = (await ask("diff", first="model.onnx", second="small.onnx")).structured_content
        assert found["result"]["differences"]
        refused = await ask("stats", model="../outside.onnx")
        assert refused.is_error
        assert "is not a path in the folder of the server" in refused.content[0].text
        refused = await ask("optimize", model="model.onnx", max_nodes=3)
        assert refused.is_error
        assert "max_nodes" in refused.content[0].text

    served(root, talk)
    assert [node.op_type for node in onnx.load(root / "small.onnx").graph.node] == ["Relu"]


@pytest.mark.parametrize(
    "path", ["../outside.onnx", "/etc/passwd", "", ".", "a/../../outside.onnx", "link.onnx"]
)
def test_paths_are_confined(root: Path, path: str) -> None:
    (root / "link.onnx").symlink_to(root.parent / "outside.onnx")
    tools = Tools(root, MEANINGS)
    with pytest.raises(McpError, match="is not a path in the folder of the server"):
        tools.stats(path)
    with pytest.raises(McpError, match="is not a path in the folder of the server"):
        tools.optimize("model.onnx", output=path or "..")
    assert sorted(each.name for each in root.iterdir()) == ["link.onnx", "model.onnx", "other.onnx"]


def test_words_are_no_options(root: Path) -> None:
    found = Tools(root, MEANINGS).explain("model.onnx", "--rewrite=../rules.txt")
    assert found["exit_code"] == 2
    assert "in the selection '--rewrite=../rules.txt'" in found["messages"][0]
    onnx.save(parse(TEXT), root / "-o.onnx")
    assert Tools(root, MEANINGS).stats("-o.onnx")["exit_code"] == 0


def test_answers_are_as_their_schemas_say(root: Path) -> None:
    tools = Tools(root, MEANINGS)
    answers = {
        "optimize": tools.optimize("model.onnx"),
        "explain": tools.explain("model.onnx", "NegNeg"),
        "place": tools.place("model.onnx", "onnx"),
        "verify": tools.verify("model.onnx", "other.onnx"),
        "stats": tools.stats("model.onnx"),
        "diff": tools.diff("model.onnx", "other.onnx"),
    }
    for name, answer in answers.items():
        check_document("mcp", answer)
        check_document(name, answer["result"])
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
        told = (
            "3 nodes that the target takes, or that are computed ahead, are left out; "
            "detail=true shows them"
        )
        assert placed["messages"] == ([] if detail else [told])
    made = tools.optimize("model.onnx", output="small.onnx", opset="newest")
    assert not made["result"]["verification"][0]["runs"]
    assert onnx.load(root / "small.onnx").opset_import[0].version > 18


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
    assert found["messages"][-1].startswith(f"{len(whole) - len(shown)} more places")


def test_what_goes_wrong(root: Path) -> None:
    with pytest.raises(
        McpError, match=r"there is no file 'none\.onnx' in .*; it has model\.onnx, other\.onnx"
    ):
        Tools(root, MEANINGS).stats("none.onnx")
    with pytest.raises(McpError, match=r"xopt stats took more than 0\.01 seconds"):
        Tools(root, MEANINGS, seconds=0.01).stats("model.onnx")
    with pytest.raises(McpError, match="there is no folder"):
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

    monkeypatch.setattr("xoptim.integrations.mcp._sdk", Missing())
    with pytest.raises(McpError, match=r"xopt mcp needs its SDK: pip install 'xoptim\[mcp\]'"):
        server(root, MEANINGS)
