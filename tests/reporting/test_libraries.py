"""Libraries that are optional."""

import subprocess
import sys

import pytest

from xoptim.reporting import libraries
from xoptim.reporting.libraries import MissingLibraryError, check_libraries


def test_a_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "find_spec", lambda name: None if name == "igraph" else name)
    with pytest.raises(MissingLibraryError, match=r'igraph: .*"xoptim\[report\]"'):
        check_libraries()


@pytest.mark.slow
def test_importing_does_not_load_them() -> None:
    code = "import sys, xoptim; print({'igraph', 'jinja2'} & set(sys.modules))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "set()\n"
    )
