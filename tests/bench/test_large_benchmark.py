"""The benchmark of large models, with small weights."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.sources import ROOT


@pytest.mark.slow
def test_it_runs(tmp_path: Path) -> None:
    words = ("--gigabytes", "0.002", "--sparse", "--no-peers", "--folder", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.large", *words],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "xopt --no-verify" in done.stdout
