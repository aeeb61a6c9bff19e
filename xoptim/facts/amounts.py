"""Amounts of bytes as text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_UNITS: Final[Mapping[str, float]] = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(%|[a-z]*)", re.IGNORECASE)


def byte_amount(text: str, whole: int | None = None) -> int:
    """A number of bytes from a text such as ``500``, ``500 kB``, ``1.5GiB`` or, where ``whole`` is 100 %, ``10%``.

    The case of letters does not matter. Raises `ValueError` for any other text.
    """
    found = _AMOUNT.fullmatch(text.strip())
    unit = found[2].lower() if found else ""
    units = _UNITS if whole is None else {**_UNITS, "%": whole / 100}
    if found is None or unit not in units:
        raise ValueError(f"{text!r}: a size such as 500kB or 4GB is expected")
    return int(float(found[1]) * units[unit])
