"""Finds, by measuring, the patterns and the settings of a session with which a model runs fastest
on this machine.
"""

from typing import TYPE_CHECKING

from xoptim.facts.lazy import on_demand

if TYPE_CHECKING:
    from xoptim.tuning.options import TuneOptions as TuneOptions
    from xoptim.tuning.report import TuningReport as TuningReport
    from xoptim.tuning.search import Trial as Trial
    from xoptim.tuning.settings import (
        SettingsError as SettingsError,
        read_settings as read_settings,
        session as session,
        settings_path as settings_path,
    )
    from xoptim.tuning.speed import (
        NotSlower as NotSlower,
        SpeedCheck as SpeedCheck,
        keep_if_not_slower as keep_if_not_slower,
    )
else:
    __getattr__ = on_demand(__name__)
