"""Verification: make feeds, run models in onnxruntime, compare their outputs."""

from typing import TYPE_CHECKING

from xoptim.facts.lazy import on_demand

if TYPE_CHECKING:
    from xoptim.system.machine import available_memory as available_memory, data_size as data_size
    from xoptim.verification import functions as functions, verify as verify
    from xoptim.verification.compare import (
        Comparison as Comparison,
        compare_values as compare_values,
    )
    from xoptim.verification.errors import (
        ChoiceError as ChoiceError,
        FeedError as FeedError,
        LoadError as LoadError,
        ProviderUnavailable as ProviderUnavailable,
        RunError as RunError,
    )
    from xoptim.verification.operator_libraries import (
        EXTENSIONS as EXTENSIONS,
        library_file as library_file,
    )
    from xoptim.verification.options import (
        ComparisonRules as ComparisonRules,
        VerificationOptions as VerificationOptions,
    )
    from xoptim.verification.protos import ModelLike as ModelLike
    from xoptim.verification.reference import run_reference as run_reference
    from xoptim.verification.report import (
        Noise as Noise,
        RunReport as RunReport,
        VerificationReport as VerificationReport,
    )
    from xoptim.verification.revision import at_revision as at_revision
    from xoptim.verification.runs import load_test_data as load_test_data
    from xoptim.verification.session import (
        Session as Session,
        Value as Value,
        is_provider as is_provider,
        resolve_providers as resolve_providers,
    )
    from xoptim.verification.session_settings import SessionSettings as SessionSettings
    from xoptim.verification.verify import verify_models as verify_models
else:
    __getattr__ = on_demand(__name__)
