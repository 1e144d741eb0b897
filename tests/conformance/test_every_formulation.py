"""Every line of the registry: its models and its method agree on a round that all can take.

A formulation that is registered is tested here without anybody having to think of it; what is its
own is tested beside it.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from alloc.backends import BACKENDS, backend
from alloc.errors import UnsupportedFeatureError
from alloc.families import instance_families
from alloc.objectives import objective
from alloc.problems.allocation.instance import FEATURES, Affinity, Instance, Moves, Tenant
from alloc.problems.allocation.outages import Outage
from alloc.result import Limits
from alloc.solving import solve
from alloc.topology import Domain, Host, HostType, NetworkLink, Topology
from alloc.verification import verify
from alloc.verification.claims import check_claims
from alloc.workload import (
    Configuration,
    InterferenceTable,
    Job,
    PlacementRules,
    Stage,
    TaskGroup,
    rigid_gang,
)

CLUSTER = Topology(
    "pair",
    (HostType("box", 2, "a100-sxm-40gb", 8000, 8192),),
    (Host("h0", "box", "r0"), Host("h1", "box", "r1")),
    ("rack",),
    (Domain("r0", "rack"), Domain("r1", "rack")),
    (NetworkLink("h0", "r0", 25.0), NetworkLink("h1", "r1", 25.0), NetworkLink("r0", "r1", 10.0)),
)
GANGS = tuple(
    Job(f"j{n}", 0.0, 20.0, (rigid_gang(size),), weight=weight, elasticity="rigid", due_date_s=15.0)
    for n, (size, weight) in enumerate(((2, 1.0), (1, 2.0), (1, 1.0)))
)
PLAIN = Instance("plain", CLUSTER, GANGS, slot_s=10.0)
COARSE = 1e-3
"""CP-SAT counts parts of a slot in F2, and takes what that may hide off its bound."""

FAMILIES = instance_families()
"""Those that an instance is a problem of; `test_every_family` holds all to enumeration."""


def able(name: str) -> list[str]:
    """Return the backends that have a model of a formulation, and its method."""
    chosen = FAMILIES[name]
    general = [known for known in BACKENDS if backend(known).MODEL_KIND in chosen.models]
    return [*general, *chosen.exact_methods]


@pytest.mark.parametrize("name", FAMILIES)
def test_all_ways_to_solve_it_say_the_same(name: str) -> None:
    """Three jobs that all fit at once: every method proves the optimum, and the checker agrees."""
    for measure in FAMILIES[name].objectives:
        values = {}
        for way in able(name):
            try:
                # What is only searched takes all the time there is; what is proved may need more.
                result = solve(PLAIN, name, way, objective=measure, limits=Limits(seconds=1))
                searched = way == "auto" and math.isinf(result.certificate.bound)
                if result.status != "optimal" and not searched:
                    result = solve(PLAIN, name, way, objective=measure)
            except UnsupportedFeatureError:
                continue  # said in a sentence, which is tested where the limit belongs
            certificate = result.certificate
            assert certificate.objective is not None
            assert verify(PLAIN, result.require_solution()) == []
            if math.isinf(certificate.bound):  # an objective that the method only searches
                assert (way, certificate.bound_proof) == ("auto", "none")
                continue
            gap = abs(certificate.objective - certificate.bound)
            assert gap <= COARSE * max(1.0, abs(certificate.objective)), (way, measure)
            if way != "cpsat":
                assert certificate.status == "optimal", (way, measure)
            assert certificate.objective_name == measure
            assert check_claims(PLAIN, result) == []
            values[way] = certificate.objective
        if values:
            first = next(iter(values.values()))
            assert all(v == pytest.approx(first, rel=COARSE, abs=1e-6) for v in values.values()), (
                measure,
                values,
            )


@pytest.mark.parametrize("name", FAMILIES)
def test_its_page_names_what_it_is(name: str) -> None:
    """Sets, variables, the objective, numbered constraints, and the literature."""
    chosen = FAMILIES[name]
    for word in ("Sets", "Variables", "Constraints", "(C1)", "Literature", chosen.code):
        assert word in chosen.page_text, word
    for measure in chosen.objectives:
        assert objective(measure).meaning.endswith(".")


SLICE = (Configuration((TaskGroup("w", 1, mig_profile="1g.5gb"),), 1.0),)
MEMORY = (Configuration((TaskGroup("w", 1, 1000, gpu_memory_mib=1024),), 1.0),)
ASKING = {
    "placement rules": PLAIN.replace(
        jobs=(GANGS[0].replace(placement=PlacementRules(required="rack")), *GANGS[1:])
    ),
    "MIG slices": PLAIN.replace(jobs=(*GANGS, GANGS[0].replace(id="m", configurations=SLICE))),
    "GPU memory": PLAIN.replace(jobs=(*GANGS, GANGS[0].replace(id="m", configurations=MEMORY))),
    "affinities": PLAIN.replace(affinities=(Affinity("apart", "rack", ("j1", "j2")),)),
    "moves": PLAIN.replace(moves=Moves()),
    "refusal": PLAIN.replace(
        jobs=tuple(job.replace(refusable=True, deadline_s=15.0) for job in GANGS)
    ),
    "stages": PLAIN.replace(
        jobs=(Job("g", 0.0, stages=(Stage("a", 5.0, (rigid_gang(1),)),), due_date_s=9.0), *GANGS)
    ),
    "outages": PLAIN.replace(outages=(Outage("h0", 0.0, 5.0),)),
    "moving GPUs": PLAIN.replace(
        slot_s=None,
        move_s=2.0,
        jobs=tuple(job.replace(elasticity="rigid", preemptible=False) for job in GANGS),
    ),
    "borrowing": PLAIN.replace(tenants=(Tenant("red", 1000, "ml"),)),
    "interference": PLAIN.replace(
        interference=(InterferenceTable("a100-sxm-40gb", ("a",), np.ones(1), np.ones((1, 1))),)
    ),
}


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_feature_is_modelled_or_refused(name: str, feature: str) -> None:
    """Never ignored: a certificate for another problem would be false."""
    for way in able(name):
        if feature in FAMILIES[name].features:
            result = solve(ASKING[feature], name, way)
            assert result.certificate.verified
            assert verify(ASKING[feature], result.require_solution()) == []
        else:
            with pytest.raises(UnsupportedFeatureError, match=f"does not model {feature}"):
                solve(ASKING[feature], name, way)
