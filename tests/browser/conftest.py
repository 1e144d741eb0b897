"""One browser and one server for all tests of the page."""

import pytest
from browser_harness import Page
from server_harness import Running

from alloc.server import Settings


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """Return a client of the server whose page is tested."""
    settings = Settings(
        database=str(tmp_path_factory.mktemp("page") / "server.sqlite"), workers=1, drain_s=0.2
    )
    with Running(settings) as running:
        yield running.client


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Return the page in a browser, not opened yet."""
    page = Page(tmp_path_factory.mktemp("browser"))
    yield page
    page.close()


@pytest.fixture
def page(browser, served):
    """Return the page, opened afresh; nothing on it complains, and it stays on its host."""
    origin = str(served.base_url).rstrip("/")
    browser.requests()
    browser.complaints()
    browser.open(f"{origin}/")
    yield browser
    strangers = [
        address
        for address in browser.requests()
        if not address.startswith((f"{origin}/", f"blob:{origin}/", "about:"))
    ]
    assert strangers == []
    assert browser.complaints() == []
