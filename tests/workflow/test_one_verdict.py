"""The command, the API, a batch and an agent's tool say the same about one model."""

from pathlib import Path
from typing import Any, NamedTuple

import onnx
import pytest

import xoptim
from tests.cli.command import Xopt, runner
from tests.support import parse
from xoptim.batching import BatchOptions, workers
from xoptim.cli.exit_codes import BAD_USAGE, MEANINGS
from xoptim.integrations.mcp import McpError, Tools, files as mcp_files
from xoptim.optimizing.plans import Sink
from xoptim.workflow.outcome import TargetError

CHANGE = """
from xoptim.optimizing.plans import Sink

take = Sink.take

def take_changed(self, builder):
    proto, folder = take(self, builder)
    if proto.graph.name == "changed":
        proto.graph.node[0].op_type = "Abs"
    return proto, folder

Sink.take = take_changed
"""
"""Makes each result wrong whose graph is named ``changed``; no rewrite is to blame."""


class Case(NamedTuple):
    """A model, and what is said about its result."""

    text: str
    code: int
    status: str
    error: type[Exception] | None = None
    is_written: bool = True
    target: str = ""


CASES = {
    "nothing to do": Case("same (float[2] x) => (float[2] y) { y = Relu(x) }", 0, "done"),
    "changed numbers": Case(
        "changed (float[2] x) => (float[2] y) { y = Relu(x) }",
        1,
        "different",
        xoptim.DifferentModelError,
        is_written=False,
    ),
    "not verified": Case(
        "unknown (float[2] x) => (float[2] y) { y = acme.Foo(x) }",
        3,
        "not verified",
        xoptim.NotVerifiedError,
    ),
    # a difference counts more than what the target leaves, and that counts less than no verdict
    "changed numbers, left by the target": Case(
        "changed (float[2,2] x) => (float[2,2] y) { a = Relu(x) y = com.microsoft.Inverse(a) }",
        1,
        "different",
        xoptim.DifferentModelError,
        is_written=False,
        target="onnx",
    ),
    "left by the target": Case(
        "left (float[2,2] x) => (float[2,2] y) { y = com.microsoft.Inverse(x) }",
        3,
        "not verified",
        TargetError,
        target="onnx",
    ),
    "no model": Case("", 2, "failed", xoptim.ModelError, is_written=False),
}


@pytest.fixture(autouse=True)
def change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of some models are wrong, in this process and in those of batches and tools."""
    monkeypatch.setattr(Sink, "take", Sink.take)  # restores it
    exec(CHANGE, {})
    for module in (workers, mcp_files):
        monkeypatch.setattr(module, "CODE", f"exec({CHANGE!r})\n{module.CODE}")
    monkeypatch.setattr("xoptim.integrations.mcp.runs.CODE", mcp_files.CODE)


@pytest.fixture
def xopt(capsys: pytest.CaptureFixture[str]) -> Xopt:
    """Runs a command line."""
    return runner(capsys)


def write(case: Case, folder: Path) -> Path:
    """The file of a model."""
    folder.mkdir()
    path = folder / "model.onnx"
    path.write_text("nothing")
    if case.text:
        onnx.save(parse(case.text), path)
    return path


def by_the_api(model: Path, output: Path, target: str) -> tuple[type[Exception] | None, str]:
    """The error that the API raises, and its text."""
    options = xoptim.OptimizationOptions(target=target)
    try:
        xoptim.optimize_file(model, output, options)
    except xoptim.XoptimError as error:
        return type(error), str(error)
    return None, ""


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_all_say_the_same(name: str, xopt: Xopt, tmp_path: Path) -> None:
    case = CASES[name]
    model = write(case, tmp_path / "in")
    words = ("--target", case.target) if case.target else ()
    command = xopt(str(model), "-o", str(tmp_path / "command.onnx"), *words)
    error, reason = by_the_api(model, tmp_path / "api.onnx", case.target)
    batch = xoptim.batch([model], tmp_path / "out", BatchOptions(arguments=words))
    (record,) = batch.records
    tools = Tools(tmp_path, MEANINGS)
    answer: Any = tools.optimize("in/model.onnx", output="tool.onnx", target=case.target)

    codes = (command.code, batch.exit_code, record.exit_code, answer["exit_code"])
    assert (codes, record.status, error) == ((case.code,) * 4, case.status, case.error)
    if case.text:  # messages about a file name it as their reader does
        texts = command.err, record.error, "\n".join(answer["messages"])
        folder = f"{tmp_path}/"
        reason = reason.replace(folder, "")
        assert not [text for text in texts if reason not in text.replace(folder, "")]
    written = [tmp_path / "command.onnx", tmp_path / "out" / record.output, tmp_path / "tool.onnx"]
    assert [path.exists() for path in written] == [case.is_written] * 3
    assert (tmp_path / "api.onnx").exists() is (error is None)


@pytest.mark.slow
def test_a_time_limit_is_an_error(tmp_path: Path) -> None:
    model = write(CASES["nothing to do"], tmp_path / "in")
    batch = xoptim.batch([model], tmp_path / "out", BatchOptions(timeout=0.01))
    assert (batch.records[0].status, batch.exit_code) == ("timeout", BAD_USAGE)
    with pytest.raises(McpError, match=r" 0\.01 seconds"):
        Tools(tmp_path, MEANINGS, seconds=0.01).optimize("in/model.onnx", output="tool.onnx")
    assert [path.name for path in tmp_path.rglob("*.onnx")] == ["model.onnx"]
