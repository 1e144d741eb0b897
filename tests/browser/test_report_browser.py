"""The report in a real browser: what its script adds, by mouse and by keyboard."""

import re

import pytest
from selenium.webdriver.common.keys import Keys

from alloc.comparison import compare
from alloc.instances import load
from alloc.instances.stored_planning import load_stored_planning
from alloc.planning.report import plan
from alloc.report import write_report
from alloc.report.planning import write_plan_report


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Return the address of a report, a file."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    found = compare(
        [load("elastic-tiny/04")],
        ["fifo", "srtf", "tetris", "best-fit", "drf"],
        seeds=(0,),
        time_limit_s=20,
    )
    write_report(found, path)
    return path.as_uri()


@pytest.fixture
def report(browser, address):
    """Return the report, opened; it asks for nothing, and its policy stops nothing of its own."""
    browser.requests()
    browser.complaints()
    browser.open(address, ready=False)
    yield browser
    assert [one for one in browser.requests() if one not in (address, "about:blank")] == []
    assert browser.complaints() == []


def first_cells(report, table):
    return [cell.text for cell in report.all(f"{table} tbody tr:not([hidden]) th")]


def test_tables_sort_and_filter(report):
    table = "section:first-of-type table"
    report.all(f"{table} thead button")[0].click()
    names = first_cells(report, table)
    assert names == sorted(names)
    report.all(f"{table} thead button")[1].click()
    assert first_cells(report, table)[0] == "optimum"
    report.all(f"{table} thead button")[1].click()
    assert first_cells(report, table)[-1] == "optimum"
    assert report.all(f"{table} th[aria-sort='descending']")
    report.all(".filter")[0].send_keys("fifo")
    assert first_cells(report, table) == ["fifo"]


def test_schedules_are_looked_into_by_keyboard_and_mouse(report):
    """Bars say what they are, zoom shows fewer of them, and schedulers come and go."""
    assert not report.all(".still")[0].is_displayed()
    plot = report.all(".plot svg[role='group']")[-1]
    report.script("arguments[0].focus()", plot)
    report.press(Keys.ARROW_RIGHT)
    assert "GPU" in report.all(".readout")[0].text
    assert len(report.all(".bar.chosen")) == 1
    bars = len(report.all(".bar"))
    report.press("+++++")
    assert 0 < len(report.all(".bar")) < bars
    assert report.focused.tag_name == "svg"
    report.press("0")
    assert len(report.all(".bar")) == bars
    lines = len(report.all(".plot path"))
    report.all(".controls input")[0].click()
    assert len(report.all(".plot path")) == lines - 2
    for name, width in (("wide", 1280), ("narrow", 400)):
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        report.devtools("Emulation.setDeviceMetricsOverride", **size)
        report.until(lambda width=width: report.all(".plot svg")[0].size["width"] <= width)
        assert report.script("return document.documentElement.scrollWidth <= innerWidth"), name
    report.devtools("Emulation.clearDeviceMetricsOverride")


def test_on_paper_there_are_the_figures(report):
    report.devtools("Emulation.setEmulatedMedia", media="print")
    assert all(figure.is_displayed() for figure in report.all("figure"))
    assert not any(part.is_displayed() for part in report.all(".explorer, .filter"))
    report.devtools("Emulation.setEmulatedMedia", media="")


def test_a_plan_is_looked_into_by_offer_and_quarter(browser, tmp_path):
    """Bars say what they hold, offers come and go, and the figures are for paper."""
    path = tmp_path / "plan.html"
    write_plan_report(plan(load_stored_planning("planning-tiny"), replay=None), path)
    browser.complaints()
    browser.open(path.as_uri(), ready=False)
    assert not browser.all(".still")[0].is_displayed()
    plot = browser.all(".stacks .plot svg[role='group']")[0]
    browser.script("arguments[0].focus()", plot)
    browser.press(Keys.ARROW_RIGHT)
    assert re.match(r"Quarter \d+, .+: [\d.,]+ GPUs", browser.all(".stacks .readout")[0].text)
    bars = len(browser.all(".stacks .bar"))
    boxes = browser.all(".stacks .controls input")
    if boxes:
        boxes[0].click()
        assert len(browser.all(".stacks .bar")) < bars
    browser.all("main table thead button")[0].click()
    assert browser.all("main table th[aria-sort='ascending']")
    assert browser.complaints() == []
