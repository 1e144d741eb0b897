"""Outages drawn by seed and read from tables, and jobs that save their state."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from alloc.errors import InstanceError
from alloc.instances import generate_gangs
from alloc.instances.outages import (
    HOST_MTBF_S,
    draw_outages,
    read_outages,
    with_checkpoints,
    with_failures,
)
from alloc.problems.allocation.outages import Outage
from alloc.simulation import simulate
from alloc.topology import Domain, Host, HostType, Topology, flat_cluster

BOX = HostType("box", num_gpus=8, gpu_type="h100")
FLAT = flat_cluster("flat", BOX, 40)
RACKS = Topology(
    "racks",
    (BOX,),
    tuple(Host(f"h{k}", "box", f"rack-{k // 2}") for k in range(4)),
    ("rack",),
    (Domain("rack-0", "rack"), Domain("rack-1", "rack"), Domain("rack-2", "rack")),
)


@pytest.mark.parametrize("shape", [1.0, 0.7, 2.0])
def test_times_have_the_mean_that_is_asked_for(shape: float) -> None:
    """Up and down times of 40 hosts over 400 mean times: within five standard errors."""
    drawn = draw_outages(FLAT, 400_000.0, mtbf_s=900.0, repair_s=100.0, shape=shape, seed=1)
    up: list[float] = []
    down: list[float] = []
    for host in FLAT.hosts:
        back_s = 0.0
        for outage in (o for o in drawn if o.host == host.id):
            assert outage.end_s is not None
            up.append(outage.start_s - back_s)
            down.append(outage.end_s - outage.start_s)
            back_s = outage.end_s
    deviation = {1.0: 1.0, 0.7: 1.462, 2.0: 0.523}[
        shape
    ]  # of the Weibull distribution, over its mean
    assert np.mean(up) == pytest.approx(900.0, abs=5 * deviation * 900 / math.sqrt(len(up)))
    assert np.mean(down) == pytest.approx(100.0, abs=5 * 100 / math.sqrt(len(down)))
    assert np.std(up) / np.mean(up) == pytest.approx(deviation, rel=0.05)


def test_a_seed_names_its_outages() -> None:
    """The same twice, others with another seed, all in order and inside the time."""
    first = draw_outages(FLAT, 5e6, mtbf_s=1e6, seed=3)
    assert first == draw_outages(FLAT, 5e6, mtbf_s=1e6, seed=3)
    assert first != draw_outages(FLAT, 5e6, mtbf_s=1e6, seed=4)
    assert [o.start_s for o in first] == sorted(o.start_s for o in first)
    assert max(o.start_s for o in first) < 5e6


def test_a_domain_fails_with_all_its_hosts() -> None:
    """Each outage of a rack is one of both of its hosts, at the same time."""
    drawn = draw_outages(
        RACKS, 1e5, mtbf_s=math.inf, level="rack", level_mtbf_s=1e4, repair_s=500.0, seed=2
    )
    spans = {h: [(o.start_s, o.end_s) for o in drawn if o.host == h] for h in ("h0", "h1", "h2")}
    assert spans["h0"]
    assert spans["h0"] == spans["h1"] != spans["h2"]


def test_what_overlaps_is_one_outage() -> None:
    """A host that fails while its rack is down: instances refuse overlaps, so this shows it."""
    instance = generate_gangs("g", num_jobs=3, num_hosts=4).replace(topology=RACKS)
    failing = with_failures(
        instance, until_s=1e5, mtbf_s=2000.0, repair_s=2000.0, level="rack", level_mtbf_s=2000.0
    )
    for host in ("h0", "h1", "h2", "h3"):
        its = [o for o in failing.outages if o.host == host]
        assert all(a.end_s < b.start_s for a, b in pairwise(its))
    assert "mtbf_s 2000" in failing.description["failures"]


def test_the_rate_of_failures_is_the_published_one() -> None:
    """Llama 3: 419 in 54 days on 16,384 GPUs, which are 2,048 hosts of eight."""
    failures = 54 * 86_400 * 2_048 / HOST_MTBF_S
    assert failures == pytest.approx(419)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"mtbf_s": 0.0}, "mtbf_s is 0; it must be more than 0"),
        ({"mtbf_s": math.nan}, "mtbf_s is nan"),
        ({"repair_s": -1.0}, "repair_s"),
        ({"shape": 0.01}, "shape is 0.01; give 0.1 or more"),
        ({"until_s": 0.0}, "until_s"),
        ({"level": "rak", "level_mtbf_s": 5.0}, 'level "rak" is not in the topology; did you mean'),
        ({"level_mtbf_s": 5.0}, "level_mtbf_s is given, but no level"),
        ({"mtbf_s": 1e-3, "repair_s": 1e-3}, "more than 1000000; give times in seconds"),
    ],
)
def test_draws_that_make_no_sense(options: dict[str, float], sentence: str) -> None:
    """One sentence each."""
    with pytest.raises(InstanceError, match=sentence):
        draw_outages(RACKS, **{"until_s": 1e4, **options})  # type: ignore[arg-type]


def test_a_table_of_outages(tmp_path: Path) -> None:
    """Columns in any order, others ignored; what meets is one, and what is open never ends."""
    table = tmp_path / "down.csv"
    table.write_text("up,host,down,why\n20,h1,10,disk\n,h2,5,\n30,h1,20,disk\n\n")
    assert read_outages(table, RACKS) == (Outage("h2", 5.0), Outage("h1", 10.0, 30.0))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("host,up\nh0,1\n", "down"),
        ("host,down,up\nh9,1,2\n", r'down.csv: host "h9" is not in the topology.*line 2: h9,1,2'),
        ("host,down,up\nh0,1,2\nh0,9,3\n", r"is over at 3 s, not after .*line 3"),
        ("host,down,up\nh0,soon,2\n", "down is not a number"),
        ("host,down,up\n,1,2\n", "host is empty"),
        ("host,down,up\nh0,-5,2\n", "start_s"),
        ("host,down,up\nh0,1\n", "line 2"),
    ],
)
def test_tables_that_are_wrong(tmp_path: Path, text: str, sentence: str) -> None:
    """An outage left out would change every figure, so a wrong row is an error."""
    table = tmp_path / "down.csv"
    table.write_text(text)
    with pytest.raises(InstanceError, match=sentence):
        read_outages(table, RACKS)


def test_saves_are_charged_to_the_rates() -> None:
    """Work for 90 s and save for 10 s: a tenth slower, and a failure loses from the last save."""
    plain = generate_gangs(
        "g", num_jobs=1, num_hosts=1, gpus={8: 1}, run_s=((0.0, 1e3), (1.0, 1e3 + 1e-6))
    )
    saving = with_checkpoints(plain, 90.0, 10.0)
    host = plain.topology.hosts[0].id
    begin_s = plain.jobs[0].arrival_s
    assert saving.jobs[0].checkpoint_s == 100.0
    whole = simulate(saving, "fifo").completion_s["gang-0"]
    assert whole is not None
    assert whole - begin_s == pytest.approx(1e3 * 100 / 90)
    failing = saving.replace(outages=(Outage(host, begin_s + 250.0, begin_s + 300.0),))
    # Two intervals are saved at 200 s: 50 s are lost, and 50 s of repair.
    assert simulate(failing, "fifo").completion_s["gang-0"] == pytest.approx(whole + 100.0)


@pytest.mark.parametrize(("interval_s", "save_s"), [(0.0, 0.0), (-1.0, 0.0), (10.0, -1.0)])
def test_saves_that_make_no_sense(interval_s: float, save_s: float) -> None:
    """One sentence each."""
    with pytest.raises(InstanceError, match="checkpoints: "):
        with_checkpoints(generate_gangs("g", num_jobs=1, num_hosts=4), interval_s, save_s)
