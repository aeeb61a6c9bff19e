"""SwiftShader, a driver of Vulkan that computes on the processor, as browsers bring it."""

import ctypes
from pathlib import Path
from typing import Final

from xoptim.system.machine import set_variable

DRIVER_VARIABLE: Final = "VK_ICD_FILENAMES"
"""The variable of the environment that names the description of a driver of Vulkan."""
_LOADER: Final = "libvulkan.so.1"
_FOLDERS: Final = (
    "/usr/lib/chromium",
    "/usr/lib/chromium-browser",
    "/usr/lib64/chromium-browser",
    "/opt/google/chrome",
    "/opt/microsoft/msedge",
)


def software_driver() -> Path | None:
    """The description of SwiftShader that a browser brings, ``None`` where none is found."""
    files = (Path(folder) / "vk_swiftshader_icd.json" for folder in _FOLDERS)
    return next((path for path in files if path.is_file()), None)


def use_software_driver() -> None:
    """Let Vulkan use SwiftShader here and in children, unless a variable names a driver."""
    driver = software_driver()
    if driver is None:
        return
    set_variable(DRIVER_VARIABLE, str(driver))
    try:
        ctypes.CDLL(_LOADER)
    except OSError:
        own = driver.with_name(_LOADER)
        if own.is_file():  # later calls find a library of this name that is loaded already
            ctypes.CDLL(str(own))
