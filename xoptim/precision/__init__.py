"""Quantization and float16 conversion, within an error that the user allows."""

from typing import TYPE_CHECKING

from xoptim.facts.lazy import on_demand

if TYPE_CHECKING:
    from xoptim.precision import (
        quantize as quantize,
        samples as samples,
        sources as sources,
        static_int8 as static_int8,
    )
else:
    __getattr__ = on_demand(__name__)
