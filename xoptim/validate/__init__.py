"""Validation: make feeds, run models in onnxruntime, compare their outputs."""

from xoptim.validate.compare import Comparison, ComparisonRules, compare_values
from xoptim.validate.errors import ChoiceError, FeedError, LoadError, ProviderUnavailable, RunError
from xoptim.validate.feeding import load_test_data
from xoptim.validate.memory import available_memory, data_size
from xoptim.validate.options import ValidationOptions
from xoptim.validate.protos import ModelLike
from xoptim.validate.reference import run_reference
from xoptim.validate.report import Noise, RunReport, ValidationReport
from xoptim.validate.revision import at_revision
from xoptim.validate.session import Session, SessionSettings, Value, is_provider, library_file, resolve_providers
from xoptim.validate.validation import validate

__all__ = [
    "ChoiceError",
    "Comparison",
    "ComparisonRules",
    "FeedError",
    "LoadError",
    "ModelLike",
    "Noise",
    "ProviderUnavailable",
    "RunError",
    "RunReport",
    "Session",
    "SessionSettings",
    "ValidationOptions",
    "ValidationReport",
    "Value",
    "at_revision",
    "available_memory",
    "compare_values",
    "data_size",
    "library_file",
    "load_test_data",
    "is_provider",
    "resolve_providers",
    "run_reference",
    "validate",
]
