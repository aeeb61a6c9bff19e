"""`import xoptim` does not import heavy packages."""

import subprocess
import sys

FORBIDDEN = ("torch", "onnxruntime", "sympy", "onnx_ir", "rich", "onnxscript", "pandas", "jinja2")


def test_heavy_packages_wait_until_they_are_needed() -> None:
    code = f"""
import sys
import xoptim
assert len(xoptim.installed_patterns()) > 0
loaded = [name for name in {FORBIDDEN!r} if name in sys.modules]
sys.exit(f"imported: {{loaded}}" if loaded else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
