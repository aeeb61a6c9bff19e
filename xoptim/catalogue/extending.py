"""The names for another view of the installed rewrites, such as Theano's database."""

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
