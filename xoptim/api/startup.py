"""Session settings for a fast start: what ``--for startup`` writes."""

from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from xoptim.bench import BenchOptions
from xoptim.facts.lazy import lazy_module

if TYPE_CHECKING:
    from xoptim.tuning import settings, startup
else:  # each start of ``xopt MODEL`` would take longer
    settings = lazy_module("xoptim.tuning.settings")
    startup = lazy_module("xoptim.tuning.startup")


def measured_settings(
    model: onnx.ModelProto, base_dir: Path | None, bench: BenchOptions
) -> tuple[str, str]:
    """Measure which session settings make a model start fastest.

    Returns a summary, and the content of the settings file.

    Args:
        model: the optimized model.
        base_dir: folder of its external data.
        bench: the values and dimensions of the runs.
    """
    choice = startup.startup_settings(model, base_dir, bench)
    return choice.summary(), settings.settings_text(choice.settings)
