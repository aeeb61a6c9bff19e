"""Verification: make feeds, run models in onnxruntime, compare their outputs."""

from typing import TYPE_CHECKING

from xoptim.facts.lazy import on_demand

if TYPE_CHECKING:
    from xoptim.system.machine import available_memory as available_memory, data_size as data_size
    from xoptim.verification import functions as functions, verify as verify
    from xoptim.verification.errors import (
        ChoiceError as ChoiceError,
        FeedError as FeedError,
        LoadError as LoadError,
        ProviderUnavailable as ProviderUnavailable,
        RunError as RunError,
    )
    from xoptim.verification.inputs.feeding import (
        load_test_data as load_test_data,
        warn_of_missing as warn_of_missing,
    )
    from xoptim.verification.inputs.reference import run_reference as run_reference
    from xoptim.verification.judging.compare import (
        Comparison as Comparison,
        compare_values as compare_values,
    )
    from xoptim.verification.judging.report import (
        Noise as Noise,
        RunReport as RunReport,
        VerificationReport as VerificationReport,
        gap_text as gap_text,
    )
    from xoptim.verification.options import (
        ComparisonRules as ComparisonRules,
        VerificationOptions as VerificationOptions,
    )
    from xoptim.verification.runs.operator_libraries import (
        EXTENSIONS as EXTENSIONS,
        library_file as library_file,
    )
    from xoptim.verification.runs.protos import ModelLike as ModelLike
    from xoptim.verification.runs.revision import at_revision as at_revision
    from xoptim.verification.runs.session import (
        Session as Session,
        Value as Value,
        is_provider as is_provider,
        resolve_providers as resolve_providers,
    )
    from xoptim.verification.runs.session_settings import SessionSettings as SessionSettings
    from xoptim.verification.verify import verify_models as verify_models
else:
    __getattr__ = on_demand(__name__)
