"""Fixtures that the tests of the registry have too."""

from tests.catalogue.conftest import install as install
