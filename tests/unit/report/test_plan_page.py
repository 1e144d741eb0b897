"""The report of a plan: its interactive charts hold the numbers of its tables, and nothing else."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from report_pages import HOSTILE, Page

from alloc.instances.stored_planning import load_stored_planning
from alloc.planning.report import plan
from alloc.report.pages import script
from alloc.report.planning import plan_charts, plan_page


@pytest.fixture(scope="module")
def planned():
    """The plan of a small stored problem, without a replay."""
    return plan(load_stored_planning("planning-tiny"), replay=None)


def test_charts_hold_the_gpus_and_the_money_of_the_plan(planned):
    hosts, money = plan_charts(planned)
    quarters = len(money["layers"][0]["values"])
    assert all(len(layer["values"]) == quarters for layer in hosts["layers"])
    assert sum(map(sum, (layer["values"] for layer in hosts["layers"]))) > 0
    assert money["unit"] == planned.problem.currency
    (spent,) = money["layers"]
    low, high = np.array(spent["range"]).T
    values = np.array(spent["values"])
    near = 1e-9 * np.abs(values)
    assert (low <= values + near).all()
    assert (values <= high + near).all()


def test_the_page_needs_nothing_else_and_runs_its_own_script_only(planned):
    text = plan_page(planned)
    page = Page(text)
    assert all(link.startswith("#") for link in page.links)
    code, policy = script()
    assert code in text
    assert any(policy in (attributes.get("content") or "") for _, attributes in page.tags)
    found = re.search(r'<script type="application/json" id="data-plan">(.*?)</script>', text)
    assert found is not None
    assert json.loads(found[1]) == plan_charts(planned)
    # For paper and for browsers without scripts the figures are still there.
    assert sum("still" in (attributes.get("class") or "") for _, attributes in page.tags) == 2


def test_no_name_in_the_data_ends_the_script(planned):
    named = replace(planned, problem=planned.problem.replace(currency=HOSTILE))
    assert HOSTILE not in plan_page(named)


def test_a_page_claims_no_bound_where_none_is_proved(planned):
    """A plan whose jobs stayed where they were has none, and its gap is no number."""
    assert "no plan costs less than" in plan_page(planned)
    certificate = planned.result.certificate.replace(
        status="feasible", bound=-math.inf, bound_proof="none"
    )
    text = plan_page(replace(planned, result=planned.result.replace(certificate=certificate)))
    assert "no plan costs less than" not in text
    assert "nothing is proved of how cheap a plan can be" in text
    shown = Page(text)
    assert "inf" not in [word.strip("-% ") for word in shown.words]
