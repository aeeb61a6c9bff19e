"""Optimizing gives the same bytes in every process, with any hash seed."""

import os
import subprocess
import sys

import pytest

_SCRIPT = """
import hashlib, logging, sys
from pathlib import Path

import onnx

import xoptim
from xoptim.testing import parse

logging.disable(logging.WARNING)

def digest(model, patterns):
    options = xoptim.OptimizationOptions(patterns=patterns)
    data = xoptim.optimize(model, options).SerializeToString(deterministic=True)
    return hashlib.sha256(data).hexdigest()

patterns = xoptim.installed_patterns().values()
examples = [(cls, example) for cls in patterns for example in cls.examples]
for number, (cls, example) in enumerate(examples):
    model = parse(example.before, example.opset, example.domains)
    for patterns in ([cls], "all") if number % 10 == 0 else ([cls],):
        sys.stdout.write(f"{number} {cls.name()} {patterns} {digest(model, patterns)}\\n")
light = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
for path in sorted(light.glob("*.onnx")):
    sys.stdout.write(f"{path.name} {digest(onnx.load(path), 'default')}\\n")
"""


@pytest.mark.slow
def test_hash_seeds_make_no_difference() -> None:
    command = [sys.executable, "-c", _SCRIPT]
    environments = [{**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "2")]
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=e) for e in environments
    ]
    answers = [process.communicate(timeout=300) for process in processes]
    assert [p.returncode for p in processes] == [0, 0], answers
    first, second = (output.splitlines() for output, _ in answers)
    assert len(first) > 10
    assert [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]] == []
