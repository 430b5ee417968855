# SPDX-License-Identifier: Apache-2.0
"""Fixtures: one Chromium for all tests, and pages, which are closed at the end of their test and must have had no errors."""

import pytest

from tests.native.conftest import nbd  # noqa: F401

from .browser import Browser


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def page(chromium):
    """Opens pages. None of them may report an error, violate the content security policy or send a request to another host."""
    opened = []

    def open_page(url, **options):
        opened.append(chromium.page(url, **options))
        return opened[-1]

    yield open_page
    for one in opened:
        one.idle(0.05)
        one.close()
    for one in opened:
        assert one.faults == []
        assert len(one.hosts()) <= 1, one.hosts()
