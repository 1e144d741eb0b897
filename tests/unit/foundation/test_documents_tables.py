"""Tables that are read column by column: the same configurations, and the same sentences."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alloc.documents import format_of, formats, tables
from alloc.documents.reading import save
from alloc.errors import InstanceError
from alloc.problems.allocation.instance import Instance
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup

TABLE = tuple(
    Configuration((TaskGroup("worker", w, 1000), TaskGroup("ps", p, 0, 2000)), w / (p + 0.5))
    for w in range(1, 5)
    for p in range(1, 5)
)
OTHER = tuple(Configuration(c.tasks, c.rate + 0.25, "v100", "host", "fsdp") for c in TABLE)
CLUSTER = flat_cluster("c", HostType("h", 8, "v100", 64_000), 2)
INSTANCE = Instance(
    "two",
    CLUSTER,
    (Job("a", 0.0, 10.0, TABLE), Job("b", 1.0, 10.0, OTHER), Job("c", 2.0, 5.0, TABLE)),
)
PLAIN = json.loads(save(INSTANCE))
PARSE = format_of("instance").parse

SCALARS = st.sampled_from(
    [
        *(None, True, False, 0, 1, 2, -1, 1.0, 2.5, 0.0, -0.0, 10**400, 2**63, 1e308),
        *(math.nan, math.inf, -math.inf),
        *("", " ", "v100", "worker", "host", "x" * 200, [], {}, [1], {"a": 1}),
    ]
)


@pytest.fixture(autouse=True, scope="module")
def by_models() -> Iterator[None]:
    """Documents as small as these are read without models else, where there are no tables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "is_worth_trying", lambda size: False)
        yield


def answer(raw: Any) -> Instance | str:
    """Return what is read, or the sentence that refuses it."""
    try:
        return PARSE(json.dumps(raw))
    except InstanceError as error:
        return str(error)


def one_at_a_time(raw: Any, monkeypatch: pytest.MonkeyPatch) -> Instance | str:
    """Return the same, with no table read as a whole."""
    with monkeypatch.context() as patch:
        patch.setattr(tables, "_FEW", 10**9)
        return answer(raw)


def of_types(found: Instance | str) -> Any:
    """Return what equality does not tell: the types of numbers, which fingerprints do not show."""
    if isinstance(found, str):
        return found
    return [
        (type(c.rate), [(type(g.count), type(g.gpu_milli)) for g in c.tasks])
        for job in found.jobs
        for c in job.configurations
    ]


def test_a_plain_table_is_read_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """And it is what it was; tasks that are written alike are one object."""
    made: list[int] = []
    whole = tables.Table.made
    monkeypatch.setattr(
        tables.Table, "made", lambda table, convert: made.append(1) or whole(table, convert)
    )
    found = PARSE(save(INSTANCE))
    assert len(made) == 2
    assert found == INSTANCE
    assert found.fingerprint == INSTANCE.fingerprint
    first, second = (found.jobs[k].configurations for k in (0, 1))
    assert all(a.tasks is b.tasks for a, b in zip(first, second, strict=True))
    assert found.jobs[0].configurations is found.jobs[2].configurations
    assert vars(first[0]).keys() >= vars(Configuration(TABLE[0].tasks, 1.5)).keys()


@given(data=st.data())
def test_whatever_is_in_a_table_is_read_or_refused_as_one_at_a_time(data: st.DataObject) -> None:
    """One thing is changed somewhere in a table: in a configuration, a task group, or the list."""
    raw = copy.deepcopy(PLAIN)
    name = data.draw(st.sampled_from(sorted(raw["configuration_sets"])))
    table = raw["configuration_sets"][name]
    k = data.draw(st.integers(0, len(table) - 1))
    group = data.draw(st.sampled_from(table[k]["tasks"]))
    fields = st.sampled_from(
        [
            *("tasks", "rate", "gpu_type", "within", "technique", "role", "count", "gpu_milli"),
            *("rat", "mig_profile", "resources", "memory_mib", "gpu_memory_mib"),
        ]
    )
    target = data.draw(st.sampled_from(["configuration", "group", "list", "groups"]))
    if target == "list":
        table[k] = data.draw(SCALARS)
    elif target == "groups":
        table[k]["tasks"].append(data.draw(SCALARS | st.just(group)))
    else:
        one = table[k] if target == "configuration" else group
        field = data.draw(fields)
        if field in one and data.draw(st.booleans()):
            del one[field]
        else:
            one[field] = data.draw(SCALARS)
    with pytest.MonkeyPatch.context() as patch:
        expected = one_at_a_time(raw, patch)
    for _ in range(2):  # the second time with what the first has learnt
        found = answer(raw)
        assert found == expected
        assert of_types(found) == of_types(expected)


@pytest.mark.parametrize("rate", [math.nan, math.inf, -math.inf, 10**400, -(10**400), -1, 10**30])
def test_a_rate_that_is_no_number_of_a_document_is_refused(
    rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is of the right type, and yet nothing that a configuration can be made of."""
    raw = copy.deepcopy(PLAIN)
    next(iter(raw["configuration_sets"].values()))[3]["rate"] = rate
    found = answer(raw)
    assert found == one_at_a_time(raw, monkeypatch)
    assert isinstance(found, Instance) == (rate == 10**30)


def test_a_number_that_equals_another_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """1, 1.0 and true are one key of a dictionary, and true is no count."""
    known = answer(PLAIN)
    assert isinstance(known, Instance)
    for value, refused in ((True, "count is true; give a whole number."), (1.0, "")):
        raw = copy.deepcopy(PLAIN)
        next(iter(raw["configuration_sets"].values()))[0]["tasks"][0]["count"] = value
        found = answer(raw)
        assert str(found).endswith(refused) if refused else found == known
        assert found == one_at_a_time(raw, monkeypatch)


def test_what_is_remembered_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a server's documents no more is kept than some thousand short ways to write tasks."""
    monkeypatch.setattr(tables, "_KNOWN", {})
    monkeypatch.setattr(tables, "_MAX_KNOWN", 20)
    assert answer(PLAIN) == INSTANCE
    assert len(tables._KNOWN) == len(TABLE)
    raw = copy.deepcopy(PLAIN)
    for found in raw["configuration_sets"].values():
        for one in found:
            one["tasks"][0]["role"] = "trainer"
    named = answer(raw)
    assert isinstance(named, Instance)
    assert len(tables._KNOWN) == len(TABLE), "the others are forgotten"
    for found in raw["configuration_sets"].values():
        for one in found:
            one["tasks"][0]["role"] = "t" * 200
    assert isinstance(answer(raw), Instance)
    assert len(tables._KNOWN) == len(TABLE), "a long name is not kept"
