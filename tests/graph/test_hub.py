"""Models of the Hugging Face Hub, from a local server with the Hub's endpoint for files."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse
from xoptim import ModelError
from xoptim.graph.hub import HubFile, hub_file, local_file

TEXT = "agraph (float[n,64] x) => (float[n,64] y) { t = Neg(x) u = Neg(t) y = MatMul(u, w) }"
COMMIT = "0123456789012345678901234567890123456789"


class Hub(BaseHTTPRequestHandler):
    """Serves ``/ORG/REPO/resolve/REVISION/FILE``."""

    files: ClassVar[dict[str, bytes]] = {}
    asked: ClassVar[list[str]] = []

    def do_HEAD(self) -> None:
        """Describe a file."""
        self._answer(with_body=False)

    def do_GET(self) -> None:
        """Send a file."""
        self._answer(with_body=True)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Be silent."""

    def _answer(self, *, with_body: bool) -> None:
        repo, _, place = self.path.lstrip("/").partition("/resolve/")
        revision, _, name = place.partition("/")
        body = self.files.get(f"{repo}@{revision}/{name}")
        self.asked.append(f"{self.command} {name}")
        if body is None:
            self.send_response(404)
            self.send_header(
                "X-Error-Code", "EntryNotFound" if repo == "org/repo" else "RepoNotFound"
            )
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a process that uses a local hub with one repository."""
    model = parse(TEXT)
    weights = np.eye(64, dtype=np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    onnx.save(
        model,
        tmp_path / "model.onnx",
        save_as_external_data=True,
        location="model.onnx_data",
        size_threshold=0,
    )
    Hub.files = {
        f"org/repo@{revision}/onnx/{name}": (tmp_path / name).read_bytes()
        for name in ("model.onnx", "model.onnx_data")
        for revision in ("main", "refs%2Fpr%2F1")
    }
    Hub.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    yield {
        **os.environ,
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "XDG_CACHE_HOME": str(tmp_path / "caches"),
    }
    server.shutdown()
    server.server_close()


def xopt(
    folder: Path, environment: dict[str, str], *words: str
) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder."""
    code = "import sys; from xoptim.cli.main import run; sys.exit(run(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_model_with_its_weights(hub: dict[str, str], tmp_path: Path) -> None:
    """The result is in the current folder; nothing is transferred twice."""
    pytest.importorskip("huggingface_hub")
    folder = tmp_path / "here"
    folder.mkdir()
    done = xopt(folder, hub, "hf://org/repo/onnx/model.onnx", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["nodes_after"] == 1
    assert [node.op_type for node in onnx.load(folder / "model.opt.onnx").graph.node] == ["MatMul"]
    sent = [word for word in Hub.asked if word.startswith("GET onnx/")]
    assert sent == ["GET onnx/model.onnx", "GET onnx/model.onnx_data"]
    Hub.asked.clear()
    done = xopt(folder, hub, "hf://org/repo/onnx/model.onnx@refs/pr/1", "-q", "-o", "new.onnx")
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "new.onnx").exists()
    Hub.asked.clear()
    done = xopt(folder, hub, "hf://org/repo/onnx/model.onnx", "-q")
    assert (done.returncode, done.stderr) == (0, "")
    assert not any(word.startswith("GET onnx/") for word in Hub.asked)
    done = xopt(folder, hub, "hf://org/repo/onnx/model.onnx", "-q", "--in-place")
    assert done.returncode == 2
    assert "MODEL was downloaded: give a file to write with -o FILE" in done.stderr


def test_from_python(hub: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    code = (
        "import xoptim; address = 'hf://org/repo/onnx/model.onnx'; "
        "smaller = xoptim.optimize(address, verify=True); "
        "print(len(smaller.graph.node), xoptim.verify(address, smaller).ok); "
        "xoptim.optimize_file(address, 'out.onnx')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=hub,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "1 True\n"), done.stderr
    assert (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("hf://org/repo/other.onnx", "cannot download 'other.onnx' of 'org/repo': "),
        ("hf://org/none/onnx/model.onnx", "cannot download 'onnx/model.onnx' of 'org/none': "),
        ("hf://org/model.onnx", "is not an address of the Hub: hf://ORG/REPO/FILE.onnx"),
        ("hf://org/repo/../model.onnx", "'../model.onnx' is not a path in a repository"),
    ],
)
def test_what_is_not_there(hub: dict[str, str], tmp_path: Path, address: str, reason: str) -> None:
    pytest.importorskip("huggingface_hub")
    done = xopt(tmp_path, hub, address, "-q")
    assert done.returncode == 2
    assert done.stderr.startswith("xopt: error: ")
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xoptim.graph.hub._hub", _Missing())
    with pytest.raises(ModelError, match=r"needs huggingface_hub: pip install 'xoptim\[hub\]'"):
        local_file("hf://org/repo/model.onnx")


class _Missing:
    """A library that is not installed."""

    def __getattr__(self, name: str) -> Any:
        raise ImportError(name)


def test_addresses() -> None:
    assert hub_file("hf://a/b/c/d.onnx") == HubFile("a/b", "c/d.onnx", "")
    assert hub_file("hf://a/b/d.onnx@v1.0") == HubFile("a/b", "d.onnx", "v1.0")
    assert local_file("a/b.onnx") == Path("a/b.onnx")
    for wrong in ("hf://", "hf://a/b", "hf://a/b/", "hf://a/b/c@", "hf://a/b//c", "hf://a/b/c@d@e"):
        with pytest.raises(ModelError):
            hub_file(wrong)
