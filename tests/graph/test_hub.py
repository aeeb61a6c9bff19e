"""Models of the Hugging Face Hub, from a local server with the Hub's endpoint for files."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
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
    assert "downloaded" in done.stderr


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
        ("hf://org/repo/.cache/a.onnx", "'.cache/a.onnx' is not a path in a repository"),
        ("hf://../../model.onnx", "'../..' is not the name of a repository"),
    ],
)
def test_what_is_not_there(hub: dict[str, str], tmp_path: Path, address: str, reason: str) -> None:
    pytest.importorskip("huggingface_hub")
    done = xopt(tmp_path, hub, address, "-q")
    assert done.returncode == 2
    assert done.stderr.startswith("xopt: error: ")
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


def located(*locations: str) -> bytes:
    """A model with a weight at each of these places."""
    model = parse("agraph (float[1] x) => (float[1] y) { y = Neg(x) }")
    for number, location in enumerate(locations):
        tensor = model.graph.initializer.add(
            name=f"w{number}",
            data_type=onnx.TensorProto.FLOAT,
            dims=[1],
            data_location=onnx.TensorProto.EXTERNAL,
        )
        tensor.external_data.add(key="location", value=location)
    return bytes(model.SerializeToString())


class LocalHub:
    """What xoptim calls of huggingface_hub; copies files of a dictionary."""

    def __init__(self, files: dict[str, bytes], size: int | None = None) -> None:
        self.files, self.size = files, size
        self.asked: list[str] = []

    def hf_hub_url(self, repo: str, file: str, revision: str | None) -> str:
        return file

    def get_hf_file_metadata(self, url: str) -> Any:
        return SimpleNamespace(size=self.size or len(self.files[url]))

    def hf_hub_download(
        self, repo: str, file: str, *, revision: str | None, local_dir: Path
    ) -> str:
        self.asked.append(file)
        target = local_dir / file
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_NONBLOCK), "wb") as stream:
            stream.write(self.files[file])
        return str(target)


Served = Callable[..., LocalHub]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Served:
    """Serves files in place of huggingface_hub."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))

    def serve(files: dict[str, bytes], size: int | None = None) -> LocalHub:
        made = LocalHub(files, size)
        monkeypatch.setattr("xoptim.graph.hub._hub", made)
        return made

    return serve


@pytest.mark.parametrize(
    "location",
    [".cache/huggingface/download/a", "sub/../.CACHE/x", ".cache\\huggingface", "./.huggingface/x"],
)
def test_weights_in_the_place_of_bookkeeping(served: Served, location: str) -> None:
    hub = served({"model.onnx": located(location)})
    with pytest.raises(ModelError, match="folder of huggingface_hub"):
        local_file("hf://org/repo/model.onnx")
    assert hub.asked == ["model.onnx"]


def test_weights_in_the_place_of_bookkeeping_seen_from_a_folder(served: Served) -> None:
    hub = served({"onnx/model.onnx": located("../.cache/x", "../../.cache/y")})
    with pytest.raises(ModelError, match=r"'\.cache/x'"):
        local_file("hf://org/repo/onnx/model.onnx")
    assert hub.asked == ["onnx/model.onnx"]


@pytest.mark.parametrize(
    "location", ["../x", "/x", "a/../../x", "a\\..\\..\\x", "..\\x", "C:x", "C:\\x", "\\\\host\\x"]
)
def test_weights_outside_the_repository_are_not_downloaded(served: Served, location: str) -> None:
    """Windows has other separators, and names of disks."""
    hub = served({"model.onnx": located(location)})
    local_file("hf://org/repo/model.onnx")
    assert hub.asked == ["model.onnx"]


def test_the_number_of_files(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor counts once, however many locations it states."""
    monkeypatch.setattr("xoptim.graph.hub._MAX_FILES", 2)
    model = onnx.load_from_string(located("a", "b"))
    for number in range(9):
        model.graph.initializer[0].external_data.add(key="location", value=f"more{number}")
    hub = served({"m.onnx": model.SerializeToString(), "more8": bytes(4), "b": bytes(4)})
    local_file("hf://org/repo/m.onnx")
    assert hub.asked == ["m.onnx", "b", "more8"]
    hub = served({"n.onnx": located("a", "b", "c")})
    with pytest.raises(ModelError, match=r" 3 files, .* 2"):
        local_file("hf://org/repo/n.onnx")
    assert hub.asked == ["n.onnx"]


@pytest.mark.parametrize(
    ("size", "reason"),
    [(1 << 31, r"2,147,483,648 .* 2,147,483,647"), (1 << 62, f"{1 << 62:,} ")],
)
def test_the_size_of_a_model(served: Served, size: int, reason: str) -> None:
    hub = served({"m.onnx": located()}, size)
    with pytest.raises(ModelError, match=f"'m.onnx' of 'org/repo': .*{reason}"):
        local_file("hf://org/repo/m.onnx")
    assert hub.asked == []


def test_weights_that_the_disk_has_no_room_for(served: Served) -> None:
    hub = served({"m.onnx": located("w"), "w": bytes(4)})
    local_file("hf://org/repo/m.onnx")
    served({"m.onnx": located("v"), "v": bytes(4)}, 1 << 60)
    with pytest.raises(ModelError, match=r"'v' of 'org/repo': .*: 1,152,"):
        local_file("hf://org/repo/m.onnx")
    assert hub.asked == ["m.onnx", "w"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="kinds of files of POSIX")
@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_damaged_download_is_made_anew(served: Served, tmp_path: Path, kind: str) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"1")
    served({"m.onnx": located()})
    place = local_file("hf://org/repo/m.onnx")
    place.unlink()
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(other)
    assert local_file("hf://org/repo/m.onnx").read_bytes() == located()
    assert other.read_bytes() == b"1"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files of POSIX have owners")
def test_a_cache_of_another_user(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = served({"m.onnx": located()})
    folder = local_file("hf://org/repo/m.onnx").parents[3]
    assert (folder.name, folder.stat().st_mode & 0o777) == ("hub", 0o700)
    monkeypatch.setattr("os.getuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(ModelError, match=r"another user; .*XDG_CACHE_HOME"):
        local_file("hf://org/repo/m.onnx")
    assert hub.asked == ["m.onnx"]


def test_each_revision_has_a_folder(served: Served) -> None:
    served({"m.onnx": located()})
    revisions = ("", "a/b", "a--b", "..", ".", "a%2Fb", "v1.0")
    places = [
        local_file(f"hf://org/repo/m.onnx{'@' * bool(name)}{name}").parent for name in revisions
    ]
    assert len({*places}) == len(places)
    assert {place.parent for place in places} == {places[0].parent}


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xoptim.graph.hub._hub", _Missing())
    with pytest.raises(ModelError, match=r"huggingface_hub: .*'xoptim\[hub\]'"):
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
