"""Optimizes many models, each in a process of its own, on this machine or on the workers of a Dask
cluster.
"""

from xoptim.batching.options import BatchOptions
from xoptim.batching.record import BatchError, BatchReport, BatchStep, Record, Status

__all__ = ["BatchError", "BatchOptions", "BatchReport", "Record", "Status", "BatchStep"]
