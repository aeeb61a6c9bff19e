"""Whether two models compute the same: in one run of each, or section by section."""

from contextlib import suppress
from dataclasses import replace

import onnx

from xoptim.facts.assumptions import Assumptions
from xoptim.facts.errors import ModelError
from xoptim.graph.assumed import check_fit, noted
from xoptim.validate.errors import ChoiceError, FeedError, LoadError, RunError
from xoptim.validate.judge import Judge, judge
from xoptim.validate.options import ValidationOptions
from xoptim.validate.protos import ModelLike, read_proto
from xoptim.validate.reference import read_original, run_reference
from xoptim.validate.report import ValidationReport
from xoptim.validate.sections import judge_in_sections
from xoptim.validate.work import COPIES, fits_into_memory, is_mapped


def validate(original: ModelLike, optimized: ModelLike, options: ValidationOptions | None = None) -> ValidationReport:
    """Compare an optimized model with the original.

    Both are run in onnxruntime as they are written, its own optimizations off, on the same values. The status is
    ``not validated`` when the original cannot be loaded or run, or when its results are not evidence (it does not
    repeat them, they hold no finite number, or rounding alone changes them a lot); it is ``different`` when the
    optimized model has another signature, cannot be loaded or run, or computes something else.

    Models whose weights do not fit into memory are run in sections; see `xoptim.validate.sections`. Raises `ChoiceError` when
    values or sizes of the options do not fit the original, or break an assumption under which a model was optimized;
    `AssumptionError` when the assumptions of the options do not fit the original; and `ProviderUnavailable` when onnxruntime
    lacks a requested execution provider.
    """
    options = options or ValidationOptions()
    refuse = Judge(options).report
    try:
        proto, base_dir = read_original(original, options)
        options = _assuming(options, proto, optimized)
        in_sections = options.sections
        if in_sections is None:
            in_sections = not fits_into_memory(proto, options.memory_limit, copies=1 if is_mapped(proto) else COPIES)
        if in_sections:
            other, other_dir = read_proto(optimized, options.optimized_dir)
            return judge_in_sections((proto, base_dir), (other, other_dir), options)
        reference = run_reference(original, options, proto)
    except ChoiceError:
        raise
    except LoadError as error:
        return refuse("not validated", f"onnxruntime cannot load the original: {error}", "load")
    except (FeedError, RunError) as error:
        return refuse("not validated", f"onnxruntime cannot run the original: {error}", "run")
    return judge(reference, optimized, options, options.optimized_dir)


def _assuming(options: ValidationOptions, original: onnx.ModelProto, optimized: ModelLike) -> ValidationOptions:
    """The options, with what was assumed of the optimized model."""
    check_fit(Assumptions.of(options.assume), original)
    with suppress(ModelError):  # the report tells that it cannot be read
        known = noted(read_proto(optimized, options.optimized_dir)[0])
        return replace(options, assume=(*options.assume, *known.texts))
    return options
