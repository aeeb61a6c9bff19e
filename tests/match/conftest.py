"""A profile of hypothesis for long runs: ``pytest tests/match/test_planting.py
--hypothesis-profile=fuzz``.
"""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fuzz",
    max_examples=20_000,
    deadline=None,
    derandomize=False,
    suppress_health_check=list(HealthCheck),
)
