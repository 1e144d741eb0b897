"""The web page in a real browser: what people do with it, by mouse and by keyboard."""

import json
import re
from pathlib import Path

import pytest
from inference_problems import a_problem
from quota_problems import a_quota_problem
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select
from server_harness import Running

from alloc.instances.operation import generate_operation
from alloc.instances.stored_planning import load_stored_planning
from alloc.planning.inference import write_inference_problem
from alloc.planning.operation import write_operation
from alloc.planning.quotas import write_quota_problem
from alloc.problems.quota_planning.problem import QuotaTenant
from alloc.server import Settings
from alloc.server.tables import open_database
from alloc.server.tokens import add_token, revoke_token

AUDIT = (Path(__file__).parent / "accessibility.js").read_text(encoding="utf-8")


def problem(**changes):
    """Return the document of a small planning problem."""
    return {**json.loads(load_stored_planning("planning-tiny").to_json()), **changes}


def done(client, operation, label, **body):
    """Return a job that is done, asked for without the page."""
    response = client.post(
        f"/v1/{operation}", json=body, params={"label": label}, headers={"Prefer": "wait=60"}
    )
    assert response.status_code == 200, response.text
    (job,) = client.get("/v1/jobs", params={"label": label}).json()["jobs"]
    return job


def audit(page):
    """Check the page as it stands, in light and in dark."""
    for scheme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        page.devtools("Emulation.setEmulatedMedia", features=[feature])
        answer = page.script(AUDIT)
        assert answer["found"] == [], scheme
        assert answer["texts"] > 30
    page.devtools("Emulation.setEmulatedMedia", features=[])


def test_an_example_is_edited_planned_with_a_proof_and_downloaded(page, served):
    """The whole way, and what is saved is what the API returns."""
    page.load("planning-tiny")
    page.fill("number/owned/0/count", "3")
    assert json.loads(page.value("document"))["owned"][0]["count"] == 3
    page.fill("label", "three owned")
    verdict = page.run()
    assert verdict.startswith("Proved optimal")
    assert "checked independently of the solver\nyes" in page.text("result")
    (job,) = served.get("/v1/jobs", params={"label": "three owned"}).json()["jobs"]
    assert served.get(job["links"]["request"]).json()["problem"]["owned"][0]["count"] == 3
    audit(page)

    page.click("download-json")
    assert page.downloaded("json").read_bytes() == served.get(job["links"]["result"]).content
    page.click("download-report")
    report = page.downloaded("html").read_text(encoding="utf-8")
    assert report == served.get(f"{job['links']['self']}/report").text
    assert verdict in report
    assert "<script" not in report


def test_a_what_if_with_a_replay_shows_both_plans_and_compares_with_another(page, served):
    """Plans beside each other: figures, the same words in a column each, and charts with tables."""
    done(served, "plan", "as it is", problem="planning-tiny")
    page.load("planning-tiny")
    page.choose("operation", "what-if")
    page.fill("option/changes", "demand=+20%\nbudget=none")
    page.click("option/replay")
    page.fill("option/replay/jobs", "40")
    page.fill("option/replay/rounds", "1")
    page.fill("label", "more jobs")
    assert "+20 % all jobs; no budget" in page.run()
    lines = page.script("return document.getElementById('lines').textContent")
    # A worker says a line a moment: the first of all may be passed over.
    assert "planning" in lines or "iteration 1" in lines
    figures = page.all("#result figure svg")
    assert len(figures) == 3
    assert "base" in figures[0].get_attribute("aria-label")

    page.until(lambda: len(page.all("#jobs input")) > 1)
    for label in page.all("#jobs label"):
        if label.text.startswith(("as it is", "more jobs")):
            label.click()
    page.click("compare")
    verdict = page.until(lambda: page.all("#comparison .verdict")[0].text)
    assert "Cheapest: more jobs: base and as it is, 218,285 EUR." in verdict
    names = [cell.text for cell in page.all("#comparison > article > .scroll thead th")]
    assert names == ["more jobs: base", "more jobs: +20 % all jobs; no budget", "as it is"]
    audit(page)


@pytest.mark.parametrize(
    ("operation", "document", "says", "captions"),
    [
        (
            "size-inference",
            write_inference_problem(a_problem(1.5, 0.4)),
            "In the simulation every goal is kept.",
            ("GPUs that serve in each period.", "How well latency goals are kept"),
        ),
        (
            "plan-quotas",
            write_quota_problem(
                a_quota_problem([QuotaTenant("a"), QuotaTenant("b")], [[4, 2], [1, 6]], 8)
            ),
            "Proved optimal: no answer has a better expected shortfall than 1 GPU h.",
            ("GPUs of a100 that each tenant is guaranteed", "Demand that is served"),
        ),
        (
            "operate",
            write_operation(generate_operation(num_nodes=3, num_jobs=8)),
            "3 nodes are on, 0 jobs wait.",
            ("What runs on each of the 3 nodes", "What the decision costs"),
        ),
    ],
    ids=["size-inference", "plan-quotas", "operate"],
)
def test_sizing_quotas_and_operation_are_drawn(page, operation, document, says, captions):
    """A chart, words for those who cannot see it, and a table that the keyboard can scroll."""
    page.give(json.loads(document))
    page.until(lambda: page.value("operation") == operation)
    assert says in page.run()
    figures = page.all("#result figure")
    assert len(figures) == len(captions)
    for figure, caption in zip(figures, captions, strict=True):
        assert figure.text.startswith(caption)
        drawn = figure.find_element(By.TAG_NAME, "svg")
        assert drawn.get_attribute("role") == "img"
        assert drawn.get_attribute("aria-label").startswith(caption)
        assert drawn.size["height"] > 60
        assert len(figure.find_elements(By.CSS_SELECTOR, "table tbody tr")) > 0
        regions = figure.find_elements(By.CSS_SELECTOR, '[role="region"][tabindex="0"]')
        assert len(regions) == 2
    audit(page)


def test_a_narrow_page_scrolls_only_its_charts_and_tables(page, served):
    """At 320 px nothing needs scrolling in two directions but what is wide by nature."""
    job = done(served, "solve", "narrow", instance="elastic-tiny/02", time_limit_s=5)
    page.devtools(
        "Emulation.setDeviceMetricsOverride",
        width=320,
        height=640,
        deviceScaleFactor=1,
        mobile=False,
    )
    try:
        page.open(f"{served.base_url}#job={job['id']}")
        page.verdict()
        assert len(page.all("#result figure svg")) == 2  # when jobs run, and GPUs in use
        page.load("planning-tiny")
        assert page.script("return document.documentElement.scrollWidth <= innerWidth")
    finally:
        page.devtools("Emulation.clearDeviceMetricsOverride")


def test_all_of_it_works_by_keyboard_and_the_focus_can_be_seen(page):
    """Tab, arrows, Enter: from the skip link over the example to the verdict."""
    page.press(Keys.TAB)
    assert page.focused.text == "Skip to the content"
    page.press(Keys.ENTER)
    wanted = ["example", "load", "run"]
    for _ in range(100):
        page.press(Keys.TAB)
        focused = page.focused
        style = page.script("return getComputedStyle(arguments[0]).outlineStyle", focused)
        assert style != "none", focused.get_attribute("outerHTML")
        name = focused.get_attribute("id")
        if name not in wanted:
            continue
        assert name == wanted.pop(0)
        if name == "example":
            # By arrows: letters count as one word only where they follow each other in time.
            for _ in page.all("#example option"):
                if not page.value("example").endswith("elastic-tiny/01"):
                    page.press(Keys.ARROW_DOWN)
        elif name == "load":
            page.press(Keys.ENTER)
            page.until(lambda: "elastic-tiny/01" in page.value("document"))
            # Into the document, behind its many numbers.
            page.script("document.getElementById('document').focus()")
        else:
            break
    assert wanted == []
    page.press(Keys.ENTER)
    assert page.verdict().startswith("Proved optimal")
    title = page.until(lambda: page.focused.text if page.focused.tag_name == "h3" else "")
    assert title == "Solve: elastic-tiny/01"
    assert page.script("return document.getElementById('status').textContent").startswith("Done.")


def test_what_is_wrong_is_said_at_the_field_in_the_words_of_the_server(page):
    for field, value, words in (
        ("number/offers/0/price", "dear", "give a number"),
        ("number/offers/0/price", "-3", 'offer "buy a100": price is -3; it must be 0 or more.'),
        ("option/time_limit_s", "0", "give more than 0"),
    ):
        page.load("planning-tiny")
        page.fill(field, value)
        page.click("run")
        page.until(lambda words=words: words in page.text("errors"))
        wrong = page.get(field)
        assert wrong.get_attribute("aria-invalid") == "true"
        note = wrong.get_attribute("aria-describedby").split()[-1]
        assert page.text(note) == words
        assert page.focused.get_attribute("id") == "errors"
        page.all("#errors a")[0].click()
        assert page.focused == wrong
    audit(page)


def test_text_that_is_not_json_is_said_beside_it(page):
    page.all("#document-part summary")[0].click()
    page.fill("document", '{"kind": ')
    page.click("run")
    assert page.text("document-error").startswith("not JSON")
    assert page.focused.get_attribute("id") == "document"


JOBS = "JobID,Submit,Elapsed,Cards\n1,0,600,8\n2,60,300,4\n3,90,soon,4\n"


def read(page):
    """Wait until files have been read or refused; return what is wrong, and what was read."""
    page.until(lambda: page.get("read").is_enabled() and page.get("uploads").is_displayed())
    return page.text("upload-error"), page.text("reading")


def test_a_table_and_a_cluster_become_a_problem_that_is_solved(page, tmp_path):
    """A column is named, a machine is named; then rows are counted, and the jobs are solved."""
    jobs, cluster = tmp_path / "jobs.csv", tmp_path / "cluster.conf"
    jobs.write_text(JOBS)
    cluster.write_text("SwitchName=leaf Nodes=n[1-2]\n")
    page.get("file").send_keys(f"{jobs}\n{cluster}")
    wrong, _ = page.until(lambda: [found for found in [read(page)] if found[0]])[0]
    assert wrong.startswith("jobs.csv: no column looks like the gpus of jobs; choose it")
    Select(page.get("column-gpus")).select_by_visible_text("Cards")
    page.click("read")
    page.until(lambda: "name their machine" in read(page)[0])
    page.fill("host-type", "dgx-h100")
    page.click("read")
    page.until(lambda: "2 jobs for 16 GPUs on 2 hosts; 1 of 3 rows left out" in read(page)[1])
    assert read(page)[0] == ""
    assert "line 3: 3,90,soon,4" not in page.value("document")
    assert json.loads(page.value("document"))["topology"]["host_types"][0]["name"] == "dgx-h100"
    audit(page)
    assert page.run().startswith("Proved optimal: no answer has a better weighted jct than 900 s")

    # What is wrong now is not what the last answer is about.
    jobs.write_text('"' * 70_000)
    page.click("drop-files")
    page.get("file").send_keys(str(jobs))
    page.until(lambda: "longer than 65536 characters" in read(page)[0])
    assert page.text("result") == ""
    assert not page.get("downloads").is_displayed()


def test_no_error_stands_above_an_old_answer(page):
    """Whatever is refused, at the field or by the server, the answer before it goes."""
    page.load("elastic-tiny/01")
    for spoil, words in (
        (lambda: page.fill("number/jobs/0/work", "-3"), "work is -3"),
        (lambda: page.fill("number/jobs/0/arrival_s", "soon"), "give a number"),
        (lambda: page.fill("document", "{"), "not JSON"),
    ):
        page.load("elastic-tiny/01")
        assert page.run()
        spoil()
        page.click("run")
        page.until(lambda words=words: words in page.text("errors") + page.text("document-error"))
        assert page.text("result") == ""
        said = page.text("errors")
        assert "/instance" not in said
        assert "/v1/" not in said
        assert "null" not in said


def test_the_address_of_a_job_brings_back_what_was_asked(page, served):
    job = done(served, "explain", "kept", instance="elastic-tiny/02")
    page.open(f"{served.base_url}#job={job['id']}")
    page.verdict()
    assert page.value("operation") == "explain"
    assert '"name": "elastic-tiny/02"' in page.value("document")
    assert page.value("example").endswith("elastic-tiny/02")


def test_names_are_shown_as_text_whatever_they_hold(page):
    """A document of a stranger's runs nothing on the page."""
    evil = '<script>window.hacked = 1</script><img src="/evil" onerror="window.hacked = 2">'
    given = problem(name=evil)
    for offer in given["offers"]:
        offer["name"] += evil
    given["owned"][0]["offer"] += evil
    page.give(given)
    page.until(lambda: page.all("#numbers input"))
    page.fill("label", evil)
    page.run()
    assert page.all("#result .view-title")[0].text == f"Plan: {evil}"
    page.until(lambda: [one for one in page.all("#jobs label") if evil in one.text])
    assert page.all("#result script, #result img, #numbers img, #jobs img") == []
    assert page.script("return window.hacked === undefined")


def test_a_run_can_be_cancelled(page):
    page.load("planning-large")
    page.fill("option/time_limit_s", "120")
    page.click("run")
    # On a busy machine the first line of progress may come before anybody has read that it runs.
    page.until(lambda: re.match(r"Running|[\d.]+ s ", page.text("progress-line")))
    page.click("cancel")
    page.until(lambda: "cancelled" in page.text("progress-line"))
    page.until(lambda: page.get("run").is_enabled())
    assert not page.get("cancel").is_displayed()
    assert page.focused.get_attribute("id") == "run"


def test_a_server_with_tokens_is_entered_with_one_that_stays_in_the_tab(browser, tmp_path):
    settings = Settings(
        database=str(tmp_path / "server.sqlite"),
        workers=1,
        preload=False,
        require_tokens=True,
        drain_s=0.2,
    )
    engine = open_database(settings.database)
    token = add_token(engine, "ada")
    with Running(settings) as running:
        browser.open(str(running.client.base_url), ready=False)
        browser.until(lambda: browser.get("access").is_displayed())
        browser.fill("token", "alloc_wrong")
        browser.press(Keys.ENTER)
        browser.until(lambda: "unknown or revoked" in browser.text("access-error"))
        browser.fill("token", token)
        browser.press(Keys.ENTER)
        browser.until(browser.is_ready)
        assert not browser.get("access").is_displayed()
        kept = browser.script(
            "return [sessionStorage.length, localStorage.length, document.cookie]"
        )
        assert kept == [1, 0, ""]
        browser.load("elastic-tiny/01")
        assert browser.run().startswith("Proved optimal")

        # A token that is revoked meanwhile: the page asks for another, and loses nothing.
        revoke_token(engine, "ada")
        another = add_token(engine, "bob")
        engine.dispose()
        browser.until(lambda: (browser.click("refresh"), browser.get("access").is_displayed())[1])
        browser.fill("token", another)
        browser.press(Keys.ENTER)
        browser.until(lambda: not browser.get("access").is_displayed())
        assert "elastic-tiny/01" in browser.value("document")
