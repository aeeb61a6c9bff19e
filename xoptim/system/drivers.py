"""SwiftShader, a Vulkan driver that runs on the CPU, as shipped with browsers."""

import ctypes
from pathlib import Path
from typing import Final

from xoptim.system.machine import set_default_variable

DRIVER_VARIABLE: Final = "VK_ICD_FILENAMES"
"""Environment variable with the path of the manifest of a Vulkan driver."""
_LOADER: Final = "libvulkan.so.1"
_FOLDERS: Final = (
    "/usr/lib/chromium",
    "/usr/lib/chromium-browser",
    "/usr/lib64/chromium-browser",
    "/opt/google/chrome",
    "/opt/microsoft/msedge",
)


def software_driver() -> Path | None:
    """The manifest of SwiftShader in a browser, ``None`` when there is none."""
    files = (Path(folder) / "vk_swiftshader_icd.json" for folder in _FOLDERS)
    return next((path for path in files if path.is_file()), None)


def use_software_driver() -> None:
    """Let Vulkan use SwiftShader here and in children, unless a variable names a driver."""
    driver = software_driver()
    if driver is None:
        return
    set_default_variable(DRIVER_VARIABLE, str(driver))
    try:
        ctypes.CDLL(_LOADER)
    except OSError:
        library = driver.with_name(_LOADER)
        if library.is_file():  # later calls find a library of this name that is loaded already
            ctypes.CDLL(str(library))
