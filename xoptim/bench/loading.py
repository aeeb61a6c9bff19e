"""The time to load a model and the memory that its session takes, measured in a process of its own."""

import pickle
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from xoptim.system.machine import resident_size
from xoptim.validate.errors import LoadError
from xoptim.validate.session import Session, SessionSettings, Value, resolve_providers

_CHILD = "from xoptim.bench.loading import main; main()"


class Loading(NamedTuple):
    """Time and memory to load a model."""

    seconds: float  # to make a session from the file
    # Bytes by which the process has grown after loading and one run, ``None`` where the system does not report them (not
    # Linux). Memory of a GPU is not counted
    memory: int | None


def measure_loading(model: Path, settings: SessionSettings, feeds: Mapping[str, Value]) -> Loading:
    """Load a model in a new process and run it once.

    In a process that has loaded another model before, the figures depend on it: libraries are loaded, and memory is reused.
    Raises `LoadError` when onnxruntime cannot load or run the model.
    """
    task = pickle.dumps((model, settings, dict(feeds)))
    done = subprocess.run([sys.executable, "-c", _CHILD], input=task, capture_output=True, check=False)
    if done.returncode or not done.stdout:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise LoadError(f"{str(model)!r} cannot be loaded in a process of its own: {last[0]}")
    return Loading(*pickle.loads(done.stdout))


def main() -> None:
    """Measure what standard input describes; write the figures to standard output."""
    model, settings, feeds = pickle.load(sys.stdin.buffer)
    resolve_providers(settings.providers)  # loads the libraries, which all sessions share
    before = resident_size()
    start = time.perf_counter()
    session = Session(model, settings)
    seconds = time.perf_counter() - start
    session.runner(feeds)()
    after = resident_size()
    memory = None if before is None or after is None else max(0, after - before)
    sys.stdout.buffer.write(pickle.dumps((seconds, memory)))
