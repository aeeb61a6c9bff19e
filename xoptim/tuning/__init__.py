"""Finds, by measuring, the patterns and the settings of a session with which a model runs fastest on this machine."""

from xoptim.tuning.options import TuneOptions
from xoptim.tuning.report import TuningReport
from xoptim.tuning.search import Trial
from xoptim.tuning.settings import SettingsError, read_settings, session, settings_path
from xoptim.tuning.speed import SpeedCheck, keep_if_not_slower

__all__ = [
    "SettingsError",
    "SpeedCheck",
    "Trial",
    "TuneOptions",
    "TuningReport",
    "keep_if_not_slower",
    "read_settings",
    "session",
    "settings_path",
]
