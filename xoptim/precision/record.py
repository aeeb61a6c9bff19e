"""The entry about the error in the metadata of a quantized model.

The entry is for people. Anybody can write it into a file, so no decision relies on it.
"""

from typing import Final

import onnx

from xoptim.facts.protos import replace_items
from xoptim.precision.metrics import metric_name
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.samples import Samples

ENTRY: Final = "xoptim.quantization"


def record(model: onnx.ModelProto, precision: PrecisionOptions, samples: Samples) -> None:
    """Write the scheme, the tolerances, the metric and the number of samples into a model."""
    tolerances = "".join(
        f", {tolerance:.4g} for {name}" for name, tolerance in precision.tolerances.items()
    )
    text = (
        f"{precision.scheme}, tolerance {precision.tolerance:.4g}{tolerances}, "
        f"metric {metric_name(precision.metric)}, {samples.summary()}"
    )
    entries = model.metadata_props
    replace_items(entries, [entry for entry in entries if entry.key != ENTRY])
    entries.add(key=ENTRY, value=text)


def has_record(model: onnx.ModelProto) -> bool:
    """Whether the metadata of a model say that it was quantized."""
    return any(entry.key == ENTRY for entry in model.metadata_props)
