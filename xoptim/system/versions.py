"""Versions of installed packages."""

from importlib.metadata import PackageNotFoundError, version


def package_version(name: str) -> str:
    """The version of an installed package.

    It is ``unknown`` in a frozen application, which has no metadata of packages.
    """
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"
