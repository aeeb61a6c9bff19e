"""`import xoptim` does not import heavy packages, and keeps onnxruntime from sending events."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.sources import ROOT

FORBIDDEN = ("torch", "onnxruntime", "sympy", "onnx_ir", "rich", "onnxscript", "pandas", "jinja2")


def test_heavy_packages_wait_until_they_are_needed() -> None:
    code = f"""
import sys
import xoptim
assert len(xoptim.installed_patterns()) > 0
loaded = [name for name in {FORBIDDEN!r} if name in sys.modules]
sys.exit(f"imported: {{loaded}}" if loaded else 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(
    sys.platform == "win32", reason="Windows itself collects the events of onnxruntime"
)
@pytest.mark.parametrize("chosen", [None, "0"])
def test_onnxruntime_sends_nothing_unless_asked_to(chosen: str | None, tmp_path: Path) -> None:
    """Where it sends events, it keeps a number of the machine and a queue in the home folder."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("CI", "GITHUB_ACTIONS", "ORT_DISABLE_TELEMETRY")
    }
    environ = kept | {"HOME": str(tmp_path)} | ({"ORT_DISABLE_TELEMETRY": chosen} if chosen else {})
    model = str(ROOT / "examples" / "models" / "tiny_bert.onnx")
    code = (
        f"import os, xoptim; assert xoptim.verify({model!r}, {model!r}).ok; "
        "print(os.environ['ORT_DISABLE_TELEMETRY'])"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(
        words, env=environ, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, chosen or "1"), done.stderr
    if chosen is None:
        assert not list(tmp_path.rglob("*onnxruntime*"))
