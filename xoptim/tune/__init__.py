"""Finds, by measuring, the patterns and the settings of a session with which a model runs fastest on this machine."""

from xoptim.tune.options import TuneOptions
from xoptim.tune.report import TuningReport
from xoptim.tune.search import Trial
from xoptim.tune.settings import SettingsError, read_settings, session, settings_path

__all__ = ["SettingsError", "Trial", "TuneOptions", "TuningReport", "read_settings", "session", "settings_path"]
