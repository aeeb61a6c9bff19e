"""Measurements: how long models run side by side, what loading them takes, and which operators take the time."""

from xoptim.bench.loading import Loading as Loading
from xoptim.bench.measure import OperatorTime as OperatorTime
from xoptim.bench.measure import bench as bench
from xoptim.bench.measure import profile as profile
from xoptim.bench.options import BenchOptions as BenchOptions
from xoptim.bench.rounds import BenchReport as BenchReport
from xoptim.bench.rounds import Interval as Interval
from xoptim.bench.rounds import ModelTimes as ModelTimes
from xoptim.bench.rounds import Ratio as Ratio
from xoptim.bench.rounds import ratio_of as ratio_of
