"""Measure models side by side: time of a run and of each operator, time and memory of loading."""

from typing import TYPE_CHECKING

from xoptim.facts.lazy import on_demand

if TYPE_CHECKING:
    from xoptim.bench import measure as measure, rounds as rounds
    from xoptim.bench.measure import (
        OperatorTime as OperatorTime,
        bench as bench,
        profile as profile,
    )
    from xoptim.bench.options import BenchOptions as BenchOptions
    from xoptim.bench.rounds import (
        BenchReport as BenchReport,
        Interval as Interval,
        ModelTimes as ModelTimes,
        Ratio as Ratio,
        ratio_of as ratio_of,
    )
    from xoptim.bench.subjects import Loading as Loading
    from xoptim.bench.versions import (
        VersionsReport as VersionsReport,
        bench_versions as bench_versions,
    )
else:
    __getattr__ = on_demand(__name__)
