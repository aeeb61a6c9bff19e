"""Validation: make feeds, run models in onnxruntime, compare their outputs."""

from xoptim.system.machine import available_memory as available_memory
from xoptim.system.machine import data_size as data_size
from xoptim.validate.compare import Comparison as Comparison
from xoptim.validate.compare import ComparisonRules as ComparisonRules
from xoptim.validate.compare import compare_values as compare_values
from xoptim.validate.errors import ChoiceError as ChoiceError
from xoptim.validate.errors import FeedError as FeedError
from xoptim.validate.errors import LoadError as LoadError
from xoptim.validate.errors import ProviderUnavailable as ProviderUnavailable
from xoptim.validate.errors import RunError as RunError
from xoptim.validate.options import ValidationOptions as ValidationOptions
from xoptim.validate.protos import ModelLike as ModelLike
from xoptim.validate.reference import run_reference as run_reference
from xoptim.validate.report import Noise as Noise
from xoptim.validate.report import RunReport as RunReport
from xoptim.validate.report import ValidationReport as ValidationReport
from xoptim.validate.revision import at_revision as at_revision
from xoptim.validate.runs import load_test_data as load_test_data
from xoptim.validate.session import Session as Session
from xoptim.validate.session import SessionSettings as SessionSettings
from xoptim.validate.session import Value as Value
from xoptim.validate.session import is_provider as is_provider
from xoptim.validate.session import library_file as library_file
from xoptim.validate.session import resolve_providers as resolve_providers
from xoptim.validate.validation import validate as validate
