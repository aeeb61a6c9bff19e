"""Optimizes many models, each in a process of its own, on this machine or on the workers of a Dask cluster."""

from xoptim.batch.errors import BatchError
from xoptim.batch.options import BatchOptions
from xoptim.batch.record import Record, Status
from xoptim.batch.report import BatchReport, Step

__all__ = ["BatchError", "BatchOptions", "BatchReport", "Record", "Status", "Step"]
