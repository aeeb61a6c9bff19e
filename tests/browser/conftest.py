"""The browser of the tests of the report."""

from tests.reporting.conftest import browser as browser
