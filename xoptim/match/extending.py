"""The names to build a dialect of patterns on, as `xoptim.dialects` does, and as a pack may do.

The names for patterns themselves are in `xoptim.match`.
"""

from xoptim.match.create import make_node as make_node
from xoptim.match.easy import (
    compiled as compiled,
    connect as connect,
    needed_outside as needed_outside,
)
from xoptim.match.lines import calling_frame as calling_frame
from xoptim.match.making import (
    LISTS as LISTS,
    camel_case as camel_case,
    fault as fault,
    is_copy as is_copy,
    pattern_class as pattern_class,
)
from xoptim.match.pattern import (
    Returned as Returned,
    disjoint as disjoint,
    operator_key as operator_key,
)
from xoptim.match.refusal import listener as listener
from xoptim.match.rewrite import (
    PHASES as PHASES,
    ModelPass as ModelPass,
    Phase as Phase,
    Rewrite as Rewrite,
)
from xoptim.match.trace import (
    AnyOf as AnyOf,
    Capture as Capture,
    Condition as Condition,
    Trace as Trace,
    trace as trace,
)
