"""The names that a view of the installed rewrites needs, such as Theano's ``optdb`` in
`xoptim.dialects`.
"""

from xoptim.catalogue.entries import (
    POSITIONS as POSITIONS,
    Entry as Entry,
    is_pass as is_pass,
    make_entry as make_entry,
    shared as shared,
    short as short,
    unknown as unknown,
)
from xoptim.catalogue.query import Query as Query, class_of as class_of
from xoptim.catalogue.registry import Registry as Registry, registry as registry
