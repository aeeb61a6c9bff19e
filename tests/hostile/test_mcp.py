"""A server of the Model Context Protocol whose folder, arguments or client are hostile."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.cli.command import check_document
from tests.hostile.process import wait_for
from tests.support import parse
from xoptim.cli.exit_codes import MEANINGS
from xoptim.integrations.mcp import McpError, Tools, runs as mcp_runs
from xoptim.integrations.mcp.answers import LONGEST_ANSWER
from xoptim.integrations.mcp.files import ServedFiles
from xoptim.integrations.mcp.streams import LONGEST_REQUEST

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="links and descriptors of POSIX"),
]
TEXT = "agraph (float[n,4] x) => (float[n,4] y) { t = Neg(x) u = Neg(t) y = Relu(u) }"
SECRET = TEXT.replace("Relu", "Abs")
START = """
import sys
from pathlib import Path
from xoptim.cli import guard, start
guarded, files = guard.guarded, sys.argv[2:]
def patched(command):
    from xoptim.integrations.mcp import runs as mcp_runs
    for file in files:
        mcp_runs.CODE = Path(file).read_text()
    command()
guard.guarded = lambda command: guarded(lambda: patched(command))
sys.argv[1:] = ["mcp", sys.argv[1]]
start.main()
"""
"""The command, whose tools run other code if a file with it is given."""
WAITING = """
import sys, threading, time
from pathlib import Path
from xoptim.system.dependent import end_with_parent
threading.Thread(target=end_with_parent, daemon=True).start()
Path("{}").write_text(str(Path.cwd()))
time.sleep(600)
"""
"""A tool that does not end by itself."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with two models, one of them with weights in a folder, next to the same outside."""
    for folder, text in (("models", TEXT), ("outside", SECRET)):
        (tmp_path / folder / "sub").mkdir(parents=True)
        onnx.save(parse(text), tmp_path / folder / "sub" / "model.onnx")
        proto = parse("agraph (float[64] x) => (float[64] y) { y = Add(x, w) }")
        value = np.full(64, 1 if text == TEXT else 2, np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(value, "w"))
        place = tmp_path / folder / "large.onnx"
        location = "sub/weights.bin"
        onnx.save(proto, place, save_as_external_data=True, location=location, size_threshold=0)
    return tmp_path / "models"


def swap(path: Path) -> None:
    """Put a link to the same name outside in the place of a file or a folder."""
    other = path.parents[-2]  # of the same kind, outside
    for parent in path.parents:
        if parent.name == "models":
            other = parent.with_name("outside") / path.relative_to(parent)
    path.rename(path.with_name(f"{path.name}.gone"))
    path.symlink_to(other, target_is_directory=other.is_dir())


def before(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, step: Callable[[], None]
) -> None:
    """Do something before a function is called."""
    function = getattr(owner, name)

    def called(*args: Any, **options: Any) -> Any:
        step()
        return function(*args, **options)

    monkeypatch.setattr(owner, name, called)


def snapshot(folder: Path) -> dict[str, bytes]:
    """The contents of the files in a folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def operators(answer: Any) -> set[str]:
    return set(answer["result"]["operators"])


@pytest.mark.parametrize("name", ["sub/model.onnx", "sub"])
def test_a_model_that_becomes_a_link_after_it_was_opened(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    before(monkeypatch, mcp_runs, "run_code", lambda: swap(root / name))
    assert "Relu" in operators(Tools(root, MEANINGS).stats("sub/model.onnx"))


@pytest.mark.parametrize("name", ["sub/model.onnx", "sub"])
def test_a_model_that_becomes_a_link_after_it_was_found(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    before(monkeypatch, ServedFiles, "stage", lambda: swap(root / name))
    with pytest.raises(McpError, match=f"'{name}': .*symbolic link"):
        Tools(root, MEANINGS).stats("sub/model.onnx")


@pytest.mark.parametrize("name", ["sub/weights.bin", "sub"])
def test_weights_that_become_a_link(root: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    tools = Tools(root, MEANINGS)
    assert tools.verify("large.onnx", "large.onnx")["exit_code"] == 0
    before(monkeypatch, mcp_runs, "run_code", lambda: swap(root / name))
    answer = tools.verify("large.onnx", "large.onnx")
    assert answer["exit_code"] == 2
    assert "symbolic link" in answer["messages"][-1]


@pytest.mark.parametrize("name", ["sub/small.onnx", "sub"])
def test_an_output_that_becomes_a_link(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    outside = snapshot(root.with_name("outside"))
    if name != "sub":
        (root / name).touch()
    before(monkeypatch, ServedFiles, "publish", lambda: swap(root / name))
    with pytest.raises(McpError, match=f"'{name}': .*symbolic link; "):
        Tools(root, MEANINGS).optimize("large.onnx", output="sub/small.onnx", overwrite=True)
    assert snapshot(root.with_name("outside")) == outside
    assert not list(root.rglob("*.tmp"))


def test_links_are_not_followed(root: Path) -> None:
    (root / "link.onnx").symlink_to("sub/model.onnx")
    (root / "folder").symlink_to("sub", target_is_directory=True)
    (root / "pipe.onnx").unlink(missing_ok=True)
    os.mkfifo(root / "pipe.onnx")
    tools = Tools(root, MEANINGS)
    for path in ("link.onnx", "folder/model.onnx", "folder/../link.onnx"):
        with pytest.raises(McpError, match="symbolic link"):
            tools.stats(path)
        with pytest.raises(McpError, match="symbolic link"):
            tools.optimize("sub/model.onnx", output=path, overwrite=True)
    with pytest.raises(McpError, match="a pipe"):
        tools.stats("pipe.onnx")
    with pytest.raises(McpError, match="a folder"):
        tools.stats("sub")


def test_only_own_results_are_replaced(root: Path) -> None:
    tools = Tools(root, MEANINGS)
    given = snapshot(root)
    for path in ("sub/weights.bin", "notes.txt"):
        with pytest.raises(McpError, match=r" \.onnx"):
            tools.optimize("sub/model.onnx", output=path, overwrite=True)
    for tool in (tools, Tools(root, MEANINGS)):
        with pytest.raises(McpError, match="overwrite=true"):
            tool.optimize("sub/model.onnx", output="large.onnx")
    with pytest.raises(McpError, match="folder of 'none/a\\.onnx'"):
        tools.optimize("sub/model.onnx", output="none/a.onnx")
    assert snapshot(root) == given
    for _ in range(2):
        assert tools.optimize("sub/model.onnx")["exit_code"] == 0
    made = root / "sub" / "model.opt.onnx"
    made.write_bytes(b"changed")
    with pytest.raises(McpError, match="overwrite=true"):
        tools.optimize("sub/model.onnx")
    assert tools.optimize("sub/model.onnx", overwrite=True)["exit_code"] == 0
    assert [node.op_type for node in onnx.load(made).graph.node] == ["Relu"]
    assert snapshot(root).keys() == {*given, "sub/model.opt.onnx"}


def test_weights_of_results(root: Path) -> None:
    """Files that were there stay; weights of an earlier result go when no model names them."""
    proto = onnx.load(root / "large.onnx")
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones(512, np.float32), "w"))
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 512
    onnx.save(
        proto, root / "large.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    (root / "small.onnx.data").write_bytes(b"mine")
    tools = Tools(root, MEANINGS)
    for number in (1, 2, 1):
        assert tools.optimize("large.onnx", output="small.onnx")["exit_code"] == 0
        names = {path.name for path in root.glob("small.onnx*")}
        assert names == {"small.onnx", "small.onnx.data", f"small.onnx.{number}.data"}
        checked = onnx.load(root / "small.onnx")
        assert numpy_helper.to_array(checked.graph.initializer[0]).sum() == 512
    assert (root / "small.onnx.data").read_bytes() == b"mine"
    (root / "copy.onnx").write_bytes((root / "small.onnx").read_bytes())
    tools.optimize("large.onnx", output="small.onnx")
    assert (root / "small.onnx.1.data").exists()
    assert (root / "small.onnx.2.data").exists()


def test_long_names_make_no_long_answers(root: Path) -> None:
    name = "n\u2028" * (1 << 19)
    text = TEXT.replace("x)", "first)").replace("Neg(x)", "Neg(first)")
    proto = parse(text)
    proto.graph.input[0].name = proto.graph.node[0].input[0] = name
    onnx.save(proto, root / "long.onnx")
    tools = Tools(root, MEANINGS)
    answers = [
        tools.stats("long.onnx", detail=True),
        tools.diff("long.onnx", "sub/model.onnx", detail=True),
        tools.explain("long.onnx", "NegNeg", detail=True),
    ]
    for answer in answers:
        check_document("mcp", answer)
        assert len(json.dumps(answer)) <= LONGEST_ANSWER
    assert "; cut: " in answers[0]["messages"][-1]


class Client:
    """Talks to a server in a process, line by line."""

    def __init__(self, root: Path, *words: str) -> None:
        pytest.importorskip("mcp")
        command = [sys.executable, "-c", START, str(root), *words]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe)
        version = {"name": "test", "version": "1"}
        start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": version}
        self.ask(0, "initialize", start)
        assert self.answer()["id"] == 0
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: Any) -> None:
        """Send a message."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, number: int, method: str, parameters: Any) -> None:
        """Send a request."""
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters})

    def call(self, number: int, tool: str, **arguments: Any) -> None:
        """Call a tool."""
        self.ask(number, "tools/call", {"name": tool, "arguments": arguments})

    def answer(self) -> Any:
        """The next answer."""
        assert self.process.stdout is not None
        while True:
            assert select.select([self.process.stdout], [], [], 120)[0], "there is no answer"
            line = self.process.stdout.readline()
            assert line, "the server has ended"
            message = json.loads(line)
            if "id" in message:
                return message

    def end(self) -> str:
        """Close the input, and wait for the end; returns what the server wrote as errors."""
        _, err = self.process.communicate(timeout=120)
        return err.decode()


HOSTILE = ["a\0b.onnx", "\ud800.onnx", "a" * 5000 + ".onnx", "a/" * 5000 + "b.onnx", "m\n.onnx"]


def test_arguments_that_no_command_line_can_have(root: Path) -> None:
    client = Client(root)
    calls: list[tuple[str, dict[str, Any]]] = [
        *(("stats", {"model": path}) for path in HOSTILE),
        *(("optimize", {"model": "sub/model.onnx", "output": path}) for path in HOSTILE[:4]),
        *(("explain", {"model": "sub/model.onnx", "pattern": text}) for text in ("\0", "\ud800")),
        ("explain", {"model": "sub/model.onnx", "pattern": "a" * 300_000}),
        ("stats", {"model": ["sub/model.onnx"]}),
        ("stats", {"model": None}),
        ("stats", {"model": "b" * 100_000, "c" * 100_000: 1}),
    ]
    given = snapshot(root)
    for number, (tool, arguments) in enumerate(calls, 1):
        client.call(number, tool, **arguments)
        message = client.answer()
        assert message["id"] == number
        result = message["result"]
        assert result["isError"], arguments
        answer = result["structuredContent"]
        check_document("mcp", answer)
        assert (answer["exit_code"], answer["result"]) == (2, None)
        assert "Traceback" not in str(answer)
        assert len(json.dumps(answer)) < 10_000
    assert "Traceback" not in client.end()
    assert snapshot(root) == given


def test_a_request_that_is_too_long(root: Path) -> None:
    client = Client(root)
    for number in (1, 2):
        client.call(number, "stats", model="a" * (number * LONGEST_REQUEST))
        message = client.answer()
        assert message["id"] == number
        assert "error" in message
    client.call(3, "stats", model="sub/model.onnx")
    assert client.answer()["result"]["structuredContent"]["exit_code"] == 0
    client.end()


def test_requests_at_the_same_time(root: Path) -> None:
    client = Client(root)
    paths = {number: f"{'sub/model' if number % 2 else 'large'}.onnx" for number in range(1, 7)}
    for number, path in paths.items():
        client.call(number, "stats", model=path)
    found = {}
    for _ in paths:
        message = client.answer()
        found[message["id"]] = operators(message["result"]["structuredContent"])
    assert found.keys() == paths.keys()
    assert all(("Relu" in found[number]) == (number % 2 == 1) for number in paths)
    client.end()


@pytest.mark.parametrize("way", ["end of input", "closed output", "cancelled", "killed"])
def test_the_work_ends_when_the_client_leaves(root: Path, tmp_path: Path, way: str) -> None:
    begun, code = tmp_path / "begun", tmp_path / "code.py"
    code.write_text(WAITING.format(begun))
    client = Client(root, str(code))
    given = snapshot(root)
    client.call(1, "optimize", model="sub/model.onnx")
    wait_for(lambda: begun.exists() and bool(begun.read_text()))
    scratch = Path(begun.read_text())
    assert scratch.is_dir()
    process = client.process
    assert process.stdin is not None
    assert process.stdout is not None
    if way == "end of input":
        process.stdin.close()
    elif way == "closed output":
        process.stdout.close()
    elif way == "killed":
        process.terminate()
    else:
        parameters = {"requestId": 1, "reason": "no longer needed"}
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": parameters})
    wait_for(lambda: not scratch.exists(), 60)
    if way == "cancelled":
        client.call(2, "stats")
        client.end()
    else:
        process.wait(60)
    assert snapshot(root) == given
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None and not stream.closed:
            stream.close()
