"""Makes editable installations visible to type checkers.

Everything else about the package is in ``pyproject.toml``.
"""

import os
from pathlib import Path

from setuptools import setup
from setuptools.command.editable_wheel import editable_wheel


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
        package = Path(__file__).parent / "xoptim"
        try:
            for name in ("cli", "patterns"):
                if not (package / name).is_dir():
                    (package / name).symlink_to(os.path.join("..", name), target_is_directory=True)
        except OSError:  # Windows without the right to make links
            pass
        else:
            self.distribution.package_dir = {"": "."}
        super().finalize_options()


setup(cmdclass={"editable_wheel": LinkedFolders})
