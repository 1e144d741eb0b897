"""What the page shows of results, made by the server: words, charts, tables, and no markup."""

import dataclasses
import json
import math
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from inference_problems import a_class, a_problem
from quota_problems import a_quota_problem
from server_harness import act, wait_for

from alloc.documents import format_of
from alloc.instances.operation import generate_operation
from alloc.instances.stored_planning import load_stored_planning
from alloc.planning.inference import write_inference_problem
from alloc.planning.operation import write_operation
from alloc.planning.quotas import write_quota_problem
from alloc.problems.inference_sizing.requests import LatencyGoal
from alloc.problems.quota_planning.problem import QuotaTenant
from alloc.problems.right_sizing.accounting import account
from alloc.server.pages.charts import MAX_ROWS, Series, bars, curve, dots, gantt, show, steps
from alloc.server.pages.clusters import compare_view
from alloc.server.pages.parts import certificate_facts, gap_of, verdict_of
from alloc.server.pages.views import scenarios_of, view_of
from alloc.server.records import Job


def comparison_document(gaps, status="optimal"):
    """Return a comparison of schedulers with these gaps, one for each seed."""
    rows = [
        {"scheduler": name, "instance": "i", "seed": seed, "gap": gap, "error": None,
         "metrics": {"mean_jct_s": 10.0, "utilisation": 0.5}}
        for name, values in gaps.items()
        for seed, gap in enumerate(values)
    ]  # fmt: skip
    return {"rows": rows, "bounds": [{"certificate": {"status": status}}]}


def test_only_schedulers_with_all_their_runs_are_compared():
    """The mean over the easy seeds is not the mean over all of them."""
    gaps = {"optimum": [0.0], "lucky": [0.01, None], "fifo": [0.01, 0.5], "srtf": [0.02, 0.3]}
    view = compare_view(comparison_document(gaps))
    assert view.verdict == "srtf comes nearest: 16 % above the proved bound."
    (figure,) = view.figures
    assert "lucky" not in figure.svg
    assert [row[0].partition(" ")[0] for row in figure.table.rows] == [
        "optimum",
        "srtf",
        "fifo",
        "lucky",
    ]
    assert "has a gap in 1 of 2 runs: not compared" in figure.table.rows[-1][0]


def test_the_best_schedule_found_is_the_optimum_only_where_that_is_proved():
    """Also where the solve ended without a certificate."""
    for status, word in (("optimal", "optimum"), ("feasible", "best found"), (None, "best found")):
        (figure,) = compare_view(
            comparison_document({"optimum": [0.0], "fifo": [0.1]}, status)
        ).figures
        assert [row[0] for row in figure.table.rows] == [word, "fifo"]
        assert (">optimum<" in figure.svg) == (word == "optimum")


def test_all_schedulers_that_are_nearest_are_named():
    view = compare_view(comparison_document({"a": [0.1], "b": [0.1], "c": [0.2]}))
    assert view.verdict == "a and b come nearest: 10 % above the proved bound."


EVIL = '"><script>alert(1)</script>'


def done(client, operation, label=None, **body):
    """Return a job that is done."""
    response = client.post(f"/v1/{operation}", json=body, params={"label": label} if label else {})
    assert response.status_code == 202, response.text
    job = wait_for(client, response.json()["id"])
    assert job["state"] == "done", job
    return job


def view(client, job):
    """Return what the page shows of a job, as XML, so that all that is opened is closed."""
    response = client.get(f"{job['links']['self']}/view")
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/html")
    return ElementTree.fromstring(response.text)


def words(tree):
    return re.sub(r"\s+", " ", " ".join(tree.itertext()))


def planning(**changes):
    return json.loads(load_stored_planning("planning-tiny").replace(**changes).to_json())


def certificate(**changes):
    return {
        "status": "optimal",
        "objective": 10.0,
        "bound": 10.0,
        "sense": "min",
        "objective_name": "cost",
        "backend": "HiGHS",
        "backend_version": "1",
        "seconds": 0.5,
        "verified": True,
        "bound_proof": "recomputed",
        **changes,
    }


@pytest.mark.parametrize(
    "draw",
    [
        lambda name: bars(name, [name], [Series(name, [1.0]), Series(name, [2.0])], name),
        lambda name: bars(name, [name], [Series(name, [1.0])], name, stacked=True),
        lambda name: dots(name, [(name, 0.5, 0.4, 0.6), (name, 1.5, 1.0, 2.0)], 1.0, name),
        lambda name: gantt(name, [(name, [(0.0, 1.0, name)])], name),
        lambda name: steps(name, [(0.0, 1.0), (2.0, 0.0)], 3.0, (name, name)),
        lambda name: curve(name, [(1.0, 2.0, 3.0), (2.0, 1.0, 1.0)], (name, name)),
    ],
    ids=["bars", "stack", "dots", "gantt", "steps", "curve"],
)
def test_no_chart_lets_a_name_become_markup(draw):
    """Names come from documents of strangers; the page's policy is only the second wall."""
    drawing = draw(EVIL)
    tree = ElementTree.fromstring(drawing)
    assert tree.get("role") == "img"
    assert tree.get("aria-label") == EVIL
    assert "script" not in {element.tag for element in tree.iter()}
    # The page's content security policy would drop such styles.
    assert all("style" not in element.attrib for element in tree.iter())


def rectangles(drawing, kind):
    return [
        {key: float(bar.get(key)) for key in ("x", "y", "width", "height")}
        for bar in ElementTree.fromstring(drawing).iter("rect")
        if bar.get("class") == kind
    ]


def test_bars_are_as_high_as_their_values():
    one, two = rectangles(bars("", ["a", "b"], [Series("s", [2.0, 4.0])], "u"), "c0")
    assert two["height"] == pytest.approx(2 * one["height"], abs=0.2)
    assert one["y"] + one["height"] == pytest.approx(two["y"] + two["height"])


def test_bars_below_nothing_hang_from_the_axis():
    (bar, other) = rectangles(bars("", ["a", "b"], [Series("s", [-2.0, 2.0])], "u"), "c0")
    assert bar["y"] == pytest.approx(other["y"] + other["height"])
    assert bar["height"] == pytest.approx(other["height"], abs=0.2)


def test_stacked_bars_stand_on_each_other():
    drawing = bars("", ["a"], [Series("s", [2.0]), Series("t", [3.0])], "u", stacked=True)
    # The first of each class is the swatch of the legend.
    lower, upper = rectangles(drawing, "c0")[-1], rectangles(drawing, "c1")[-1]
    assert upper["y"] + upper["height"] == pytest.approx(lower["y"], abs=0.2)
    assert upper["height"] == pytest.approx(1.5 * lower["height"], abs=0.3)


def test_what_has_no_value_is_left_out_and_nothing_draws_nothing():
    assert rectangles(bars("", ["a"], [Series("s", [math.nan])], "u"), "c0") == []
    assert ElementTree.fromstring(dots("", [("a", math.nan, math.nan, math.nan)], 1.0, "u"))
    assert ElementTree.fromstring(bars("", [], [], "u")) is not None


def test_long_charts_are_cut_where_they_could_no_longer_be_read():
    rows = [(f"job {k}", [(0.0, 1.0, "one")]) for k in range(2 * MAX_ROWS)]
    assert sum("rect" in e.tag for e in ElementTree.fromstring(gantt("", rows, "s")).iter()) == 60


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (math.nan, "–"),
        (3.0, "3"),
        (1234.5, "1,234"),
        (0.12345, "0.1235"),
        (1e-7, "1.00e-07"),
    ],
)
def test_numbers_are_shown_short(value, shown):
    assert show(value) == shown


@pytest.mark.parametrize(
    ("changes", "sentence", "tone"),
    [
        ({}, "Proved optimal: no answer has a better cost than 10 EUR.", "good"),
        (
            {"status": "feasible", "bound": 8.0},
            "Found a cost of 10 EUR; proved to be within 20.00 % of the best.",
            "fair",
        ),
        (
            {"status": "feasible", "bound": "-inf"},
            "Found a cost of 10 EUR; nothing is proved about better ones.",
            "fair",
        ),
        (
            {"status": "feasible", "objective": "inf", "bound": "-inf"},
            "Found a cost of \N{EN DASH} EUR; nothing is proved about better ones.",
            "fair",
        ),
        (
            {"status": "infeasible", "objective": None, "bound": "inf"},
            "Proved impossible: no answer keeps all requirements.",
            "bad",
        ),
        (
            {"status": "no_solution", "objective": None, "bound": "-inf"},
            "No answer was found within the limits; allow more time.",
            "bad",
        ),
    ],
)
def test_a_certificate_is_said_no_stronger_than_it_is(changes, sentence, tone):
    given = certificate(**changes)
    assert verdict_of(given, "EUR") == (sentence, tone)
    assert ("status", given["status"].replace("_", " ")) in certificate_facts(given, "EUR")
    assert (gap_of(given) is None) == (given["bound"] in ("inf", "-inf"))


def test_a_plan_shows_its_proof_its_orders_and_its_assumptions(shared):
    job = done(shared, "plan", problem="planning-tiny", replay={"jobs": 40, "rounds": 1})
    tree = view(shared, job)
    text = words(tree)
    for part in (
        "checked independently of the solver",
        "Hosts, by quarter",
        "Assumptions",
        "kept over promised",
    ):
        assert part in text
    assert len(list(tree.iter("svg"))) == 3
    assert all(figure.find(".//table") is not None for figure in tree.iter("figure"))


def test_the_account_of_a_plan_is_that_of_the_books(shared):
    """Charts draw what the checker's own accounting says, quarter by quarter."""
    job = done(shared, "plan", problem="planning-tiny")
    document = shared.get(job["links"]["result"]).json()
    problem = load_stored_planning("planning-tiny")
    books = account(problem, format_of("result").decode(document["result"]).solution)
    assert document["account"]["money"]["expected"] == pytest.approx(books.spent.tolist())
    hours = sum(one["gpus"] * sum(one["hosts"]) for one in document["account"]["hosts"])
    standing = sum(
        problem.offers[problem.offer_index[offer]].gpus * counts.sum()
        for (offer, _), counts in books.hosts.items()
    )
    assert hours >= standing


def test_a_plan_that_cannot_be_says_what_would_make_it_possible(shared):
    text = words(view(shared, done(shared, "plan", problem=planning(budget=1.0))))
    assert "Proved impossible" in text
    assert "What would make it possible" in text


def test_what_ifs_without_a_plan_say_which_one_is_missing(shared):
    job = done(shared, "what-if", problem="planning-tiny", changes=["budget=1"])
    assert "There is no plan for the changed problem." in words(view(shared, job))


def test_fronts_show_each_point(shared):
    job = done(shared, "pareto", problem=planning(), axis="energy", points=2)
    tree = view(shared, job)
    assert len(list(tree.iter("circle"))) == 2
    assert "EUR" in words(tree)


def test_placements_explanations_and_comparisons_are_shown(shared, tiny):
    placed = view(shared, done(shared, "place", instance=tiny, time_limit_s=5))
    assert "Levels of the goal" in words(placed)
    assert "Where tasks stand" in words(placed)
    explained = view(shared, done(shared, "explain", instance=tiny))
    assert "waiting jobs can start now" in words(explained)
    names = ["fifo", "srtf"]
    compared = view(
        shared, done(shared, "compare", instances=[tiny], schedulers=names, time_limit_s=5)
    )
    assert "above the proved bound" in words(compared)
    assert {"optimum", *names} <= {cell.text for cell in compared.iter("th")}


def test_an_operation_that_nobody_has_drawn_shows_its_simple_values(shared):
    response = act(shared, text="three")
    job = wait_for(shared, response.json()["id"])
    assert job["state"] == "done", job
    assert "the JSON has all of it" in words(view(shared, job))


def test_a_sizing_shows_gpus_goals_and_what_more_would_change(shared):
    """What a user looks at first: how many GPUs when, and whether the latencies hold."""
    problem = json.loads(write_inference_problem(a_problem(1.5, 0.4)))
    shown = view(shared, done(shared, "size-inference", problem=problem, requests=500))
    text = words(shown)
    assert "Inference: inference" in text
    assert "In the simulation every goal is kept." in text
    assert "8 USD" in text
    used, goals = shown.iter("figure")
    assert [cell.text for cell in used.iter("th")][-2:] == ["p0", "p1"]
    assert [cell.text for cell in used.iter("td")] == ["2", "1"]
    assert "p0: chatbot on h100 2" in used.find(".//svg").get("aria-label")
    assert len(list(goals.iter("circle"))) == 1
    assert "one more host: own" in text
    assert "Assumptions" in text


def test_goals_that_the_simulation_misses_are_bad_news_in_another_shape(shared):
    base = a_problem(0.82, arrival_scv=6.0)
    kind = a_class(0.82, ttft=LatencyGoal(1.0, 95))
    bursty = base.replace(models=(dataclasses.replace(base.models[0], classes=(kind,)),))
    body = {"problem": json.loads(write_inference_problem(bursty)), "what_if": False}
    shown = view(shared, done(shared, "size-inference", requests=5000, rounds=1, **body))
    assert "In the simulation 1 of 1 goals are missed." in words(shown)
    assert shown.find("p").get("class") == "verdict bad"
    goals = list(shown.iter("figure"))[1]
    assert [path.get("class") for path in goals.iter("path")] == ["bad"]


@pytest.mark.long
def test_requests_that_nothing_serves_say_what_would_be_enough(shared):
    problem = json.loads(write_inference_problem(a_problem(500.0)))
    shown = view(shared, done(shared, "size-inference", problem=problem))
    assert "Proved impossible" in words(shown)
    assert "What would make it possible" in words(shown)
    assert list(shown.iter("figure")) == []


@pytest.mark.parametrize("goal", ["expected_shortfall", "fair_coverage", "least_quota"])
def test_quotas_stand_beside_their_demand_and_what_tenants_get(shared, goal):
    pair = [QuotaTenant("a", exceeding=0.5), QuotaTenant("b", exceeding=0.5)]
    problem = a_quota_problem(pair, [[4, 2], [1, 6]], 8, goal)
    body = json.loads(write_quota_problem(problem))
    shown = view(shared, done(shared, "plan-quotas", problem=body))
    quotas, outlook = shown.iter("figure")
    rows = [[cell.text for cell in row] for row in quotas.iter("tr")]
    assert rows[0] == ["tenant", "quota", "mean demand", "least", "most"]
    assert rows[1][2:] == ["2.5", "1", "4"]
    assert rows[2][2:] == ["4", "2", "6"]
    assert len(list(quotas.iter("line"))) > 2  # ranges
    by_time = goal != "expected_shortfall"
    assert ("all it asks for" in words(outlook)) == by_time
    assert {"planned", "replayed"} <= {cell.text for cell in outlook.iter("td")}
    assert ("Levels" in words(shown)) == (goal == "fair_coverage")
    assert "one more GPU: a100" in words(shown)


def test_a_decision_shows_what_runs_where_and_what_it_costs(shared):
    asked = generate_operation(num_nodes=3, num_jobs=8)
    shown = view(shared, done(shared, "operate", problem=json.loads(write_operation(asked))))
    nodes, costs = shown.iter("figure")
    on = [cell.text for cell in nodes.iter("th")][3:]
    assert all(name.startswith("node-") for name in on)
    bars_of_jobs = list(nodes.iter("rect"))
    assert len(bars_of_jobs) == 8
    assert "job-0, 1 GPUs" in words(nodes)
    assert "feared of jobs that wait" in words(costs)
    assert "EUR" in words(shown)


@pytest.mark.parametrize(
    ("operation", "name", "words"),
    [
        ("plan", "plan-report", "Marginal values"),
        ("what-if", "what-if", "demand"),
        ("pareto", "pareto-front", "Points of the front"),
        ("size-inference", "inference_result", "one more host: own"),
        ("size-inference", "inference_result-infeasible", "78 more hosts"),
        ("plan-quotas", "quota_result", "one more GPU: a100"),
        ("plan-quotas", "quota_result-infeasible", "of the time"),
        ("operate", "operation_result", "tardiness"),
    ],
)
def test_a_result_of_long_ago_is_shown_as_one_of_today(operation, name, words):
    """A server keeps the documents that an older alloc wrote."""
    text = (Path(__file__).parents[2] / "data" / "documents" / f"{name}-v1.json").read_text()
    job = Job("0" * 32, "local", operation, 0.0)
    assert words in str(view_of(job, None, json.loads(text)))
    if operation in ("plan", "what-if"):
        assert all(one.facts["cost"] for one in scenarios_of(job, None, json.loads(text)))


@pytest.mark.parametrize("operation", ["size-inference", "plan-quotas", "operate"])
def test_a_sizing_whose_request_is_gone_is_shown_without_it(operation):
    plan = {
        "size-inference": {
            "groups": [
                {"period": "p0", "model": "m", "gpu_type": "h100", "tensor_parallel": 2,
                 "pipeline_parallel": 1, "replicas": 3, "batch_cap": 8, "rate_per_s": 1.5}
            ]
        },
        "plan-quotas": {"quotas": [{"tenant": "a", "gpu_type": "h100", "gpu_milli": 6000}]},
        "operate": {"nodes": [{"node": "n", "type": "t", "jobs": {"j": 6}}]},
    }[operation]  # fmt: skip
    outlook = {"tenant": "a", "sample": "planned", "service": 1, "coverage": 1,
               "shortfall_gpu_h": 0}  # fmt: skip
    result = {
        "result": {"certificate": certificate(), "solution": plan},
        "outlooks": [outlook],
        "costs": {"operating": 1.0, "tardiness": 2.0, "postponement": 0.0},
    }
    found = view_of(Job("0" * 32, "local", operation, 0.0), None, result)
    assert found.title in ("Inference", "Quotas", "Operation")
    assert "6" in found.figures[0].table.rows[0][1] + found.figures[0].table.rows[0][-1]


def test_a_solve_whose_request_is_gone_is_shown_without_it():
    """Requests are kept as long as results; should one be missing, the answer still shows."""
    result = {
        "certificate": certificate(),
        "solution": {
            "type": "schedule",
            "runs": [{"job": EVIL, "configuration": 1, "start_s": 0, "end_s": 60}],
        },
    }
    shown = view_of(Job("0" * 32, "local", "solve", 0.0), None, result)
    assert [figure.table.caption for figure in shown.figures] == ["Runs, seconds"]


def test_scenarios_stand_side_by_side_and_namesakes_are_told_apart(shared):
    jobs = [done(shared, "plan", "twin", problem=p) for p in ("planning-tiny", planning())]
    jobs.append(done(shared, "solve", "schedule", instance="elastic-tiny/01"))
    jobs.append(done(shared, "place", instance="elastic-tiny/01", time_limit_s=5))
    query = [("job", job["id"]) for job in jobs]
    tree = ElementTree.fromstring(shared.get("/v1/comparisons/view", params=query).text)
    headers = [cell.text for cell in tree.iter("th") if cell.get("scope") == "col"]
    assert {"twin", "twin (2)", "schedule"} <= set(headers)
    assert "Cheapest: twin and twin (2)" in words(tree)


def test_what_cannot_be_shown_is_refused_with_the_reason(shared, tiny):
    assert shared.get(f"/v1/jobs/{'0' * 32}/view").status_code == 404
    failed = act(shared, act="refuse").json()
    wait_for(shared, failed["id"])
    refused = shared.get(f"/v1/jobs/{failed['id']}/report")
    assert refused.status_code == 422
    assert refused.json()["detail"] == "the instance is no good; send another."
    explained = done(shared, "explain", instance=tiny)
    nothing = shared.get("/v1/comparisons/view", params={"job": explained["id"]})
    assert nothing.status_code == 422
    assert "none of these jobs can be compared" in nothing.json()["detail"]
    waiting = act(shared, act="hold").json()
    assert shared.get(f"/v1/jobs/{waiting['id']}/view").status_code == 409
    shared.post(waiting["links"]["cancel"])


def test_the_page_has_no_markup_that_its_policy_forbids(shared):
    response = shared.get("/")
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"\son\w+=|style=|<style|javascript:|https?://", response.text)
    for name in re.findall(r'(?:src|href)="/(page/[^"]+)"', response.text):
        part = shared.get(f"/{name}")
        assert part.status_code == 200
        assert part.headers["x-content-type-options"] == "nosniff"
    assert shared.get("/page/%2e%2e/routes.py").status_code == 404
    assert shared.get("/page/routes.py").status_code == 404


def test_stored_problems_and_the_grammar_of_changes_are_listed(shared):
    items = shared.get("/v1/planning-problems").json()["items"]
    assert items[0]["id"] == "planning-tiny"
    document = shared.get("/v1/planning-problems/planning-tiny").json()
    assert document == json.loads(load_stored_planning("planning-tiny").to_json())
    assert shared.get("/v1/planning-problems/nothing").status_code == 404
    texts = [item["text"] for item in shared.get("/v1/changes").json()["items"]]
    assert any(text.startswith("demand=+20%") for text in texts)
