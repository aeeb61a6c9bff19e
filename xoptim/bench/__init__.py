"""Measurements: how long models run side by side, what loading them takes, and which operators take the time."""

from xoptim.bench.loading import Loading
from xoptim.bench.measure import bench
from xoptim.bench.options import BenchOptions
from xoptim.bench.profile import OperatorTime, profile
from xoptim.bench.report import BenchReport, ModelTimes
from xoptim.bench.rounds import Interval, Ratio, ratio_of

__all__ = [
    "BenchOptions",
    "BenchReport",
    "Interval",
    "Loading",
    "ModelTimes",
    "OperatorTime",
    "Ratio",
    "bench",
    "profile",
    "ratio_of",
]
