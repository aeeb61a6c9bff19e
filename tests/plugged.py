"""Marks for tests that need an execution provider of a plug-in, and fakes of plug-ins that do not
work.
"""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from xoptim.system.drivers import software_driver
from xoptim.verification import ProviderUnavailable, Session, SessionSettings, Value
from xoptim.verification.runs.plugins import PLUGINS, plugin_named

from .support import parse

CRASH = "import os, signal\n\ndef get_library_path():\n    os.kill(os.getpid(), signal.SIGSEGV)\n"
"""A module of a package whose library ends the process."""


@cache
def _fault_of(name: str) -> str:
    """Why a plug-in does not run a model here, empty when it does."""
    if not PLUGINS[name].is_installed:
        return f"the package {PLUGINS[name].package} is missing"
    if name == "webgpu" and software_driver() is None:
        return "WebGPU needs a device, or chromium's SwiftShader"
    model = parse("agraph (float[2] x) => (float[2] y) { y = Relu(x) }")
    try:
        Session(model, SessionSettings((name,), software_device=True, isolated=True))
    except ProviderUnavailable as error:
        return str(error)
    return ""


def needs(name: str) -> pytest.MarkDecorator:
    """Skips a test where a plug-in is missing or has no device, with the reason."""
    reason = _fault_of(name)
    return pytest.mark.skipif(bool(reason), reason=reason)


def skip_without(name: str) -> None:
    """Skip the running test where a plug-in is missing or has no device, with the reason."""
    if reason := _fault_of(name):
        pytest.skip(reason)


def array(value: Value) -> np.ndarray:
    """A result that is a tensor."""
    assert isinstance(value, np.ndarray)
    return value


def fake_package(name: str, text: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Put a module of this text in place of the package of a plug-in, in this process and its
    children.
    """
    plugin = plugin_named(name)
    assert plugin is not None
    (folder / f"{plugin.module}.py").write_text(text)
    patch.syspath_prepend(folder)
    patch.setenv("PYTHONPATH", str(folder))
    patch.setitem(sys.modules, plugin.module, None)  # so that what is imported now is removed again
    patch.delitem(sys.modules, plugin.module)
    patch.setattr("xoptim.verification.runs.plugins._LOADED", {})
