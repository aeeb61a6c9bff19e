"""Fetch Pyodide for the tests of the page: ``python -m tests.browser.fetch FOLDER``.

Pyodide is in npm's registry, its packages only on its own server; without them, the tests use a
stand-in for xoptim.
"""

import importlib
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlretrieve

from tests.meta.sources import ROOT


def site() -> Any:
    """The program that builds the site."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module("build_site")
    finally:
        sys.path.remove(str(ROOT / "docs"))


def packages(folder: Path) -> list[str]:
    """The files of the packages of Pyodide that the page loads, and of those that these need."""
    known = json.loads((folder / "pyodide-lock.json").read_text(encoding="utf-8"))["packages"]
    waiting, found = [*site().NAMES], dict[str, str]()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = known[name]["file_name"]
            waiting += known[name]["depends"]
    return sorted(found.values())


def missing(folder: Path) -> list[str]:
    """The files that are not at hand."""
    return [name for name in packages(folder) if not (folder / name).exists()]


def main(folder: Path) -> None:
    """Fetch what can be had into a folder."""
    version = site().PYODIDE
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["npm", "pack", "--silent", f"pyodide@{version}", "--pack-destination", str(folder)],
        check=True,
    )
    with tarfile.open(folder / f"pyodide-{version}.tgz") as archive:
        for member in archive.getmembers():
            member.name = member.name.removeprefix("package/")
            archive.extract(member, folder, filter="data")
    for name in missing(folder):
        try:
            urlretrieve(f"https://cdn.jsdelivr.net/pyodide/v{version}/full/{name}", folder / name)
        except URLError as error:
            sys.exit(f"{name} and the files after it cannot be had: {error.reason}")
    site().fetch_wheels(folder / "wheels")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
