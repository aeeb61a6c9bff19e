"""Optimize many models, each in its own process, on this machine or on a Dask cluster."""

from xoptim.batching.options import BatchOptions
from xoptim.batching.record import BatchError, BatchReport, BatchStep, Record, Status

__all__ = ["BatchError", "BatchOptions", "BatchReport", "Record", "Status", "BatchStep"]
