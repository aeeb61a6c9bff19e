"""Finds the packages, and makes editable installations visible to type checkers.

Everything else about the package is in ``pyproject.toml``.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.editable_wheel import editable_wheel

ROOT = Path(__file__).parent
FOLDERS = ("cli", "patterns")
"""Folders of the root that are packages of ``xoptim``."""


def packages() -> Iterator[str]:
    """The names of all packages."""
    links = [name for folder in FOLDERS for name in (f"xoptim.{folder}", f"xoptim.{folder}.*")]
    yield from find_packages(str(ROOT), include=["xoptim", "xoptim.*"], exclude=links)
    for folder in FOLDERS:
        yield f"xoptim.{folder}"
        yield from (f"xoptim.{folder}.{name}" for name in find_packages(str(ROOT / folder)))


class LinkedFolders(editable_wheel):
    """Links ``cli`` and ``patterns`` into ``xoptim``, so that setuptools writes a plain path in
    place of an import hook.

    mypy and pyright read such a path and do not follow hooks. Where links cannot be made, the hook
    stays.
    """

    def finalize_options(self) -> None:
        """Makes the links, and declares that all packages lie below the root, before setuptools
        reads where they are.
        """
        package = ROOT / "xoptim"
        try:
            for name in FOLDERS:
                if not (package / name).is_dir():
                    (package / name).symlink_to(os.path.join("..", name), target_is_directory=True)
        except OSError:  # Windows without the right to make links
            pass
        else:
            self.distribution.package_dir = {"": "."}
        super().finalize_options()


setup(packages=[*packages()], cmdclass={"editable_wheel": LinkedFolders})
