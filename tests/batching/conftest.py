"""The command is replaced by a small script."""

import pytest

from tests.batching.fakes import SCRIPT
from xoptim.batching import workers


@pytest.fixture
def fake_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of models run a script in place of ``xopt``."""
    monkeypatch.setattr(workers, "CODE", SCRIPT)
