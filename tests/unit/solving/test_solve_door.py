"""`solve`: its arguments, its certificates, and what limits and interrupts leave behind."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from interrupting import ctrl_c_in_highs, incumbent

import alloc
from alloc.errors import CertificateError, InstanceError, UnsupportedFeatureError
from alloc.families import FAMILIES, instance_families, require_family
from alloc.instances import load
from alloc.models.round import round_data
from alloc.problems.allocation.instance import Instance, Tenant
from alloc.problems.allocation.solution import Allocation, Assignment, Run, Schedule, TaskPlacement
from alloc.result import Limits
from alloc.solving import solve
from alloc.solving.certify import certify
from alloc.solving.outcome import Outcome, Settings
from alloc.solving.round.method import optimise_round, price_bound
from alloc.topology import flat_cluster
from alloc.topology.host import Host, HostType
from alloc.topology.topology import Topology
from alloc.workload import Configuration, Job, TaskGroup, rigid_gang

DATA = Path(alloc.__file__).parent / "instances" / "data"


def plain(*jobs: Job, gpus: int = 1, **options) -> Instance:
    topology = Topology("plain", (HostType("k", gpus, "v100", 0, 0),), (Host("h", "k"),))
    return Instance("plain", topology, jobs, **{"slot_s": 10.0, **options})


def one_job(name: str = "a", work: float = 20.0, **options) -> Job:
    return Job(name, 0.0, work, (rigid_gang(1),), **options)


@pytest.fixture(scope="module")
def small() -> Instance:
    """An instance that takes seconds to prove, so that limits strike before."""
    return Instance.load(DATA / "elastic-small" / "08.json")


def outcome(solution, bound: float, **options) -> Outcome:
    return Outcome(solution, bound, "claimed", "liar", "1.0", **options)


WHOLE = (TaskPlacement("h", "worker", 1),)


class TestArguments:
    @pytest.mark.parametrize(
        ("values", "sentence"),
        [
            ({"gap": -1}, "limits: gap is -1"),
            ({"gap": math.nan}, "limits: gap is nan"),
            ({"seed": -1}, "limits: seed is -1"),
            ({"seed": 0.5}, "limits: seed is 0.5"),
            ({"workers": 0}, "limits: workers is 0"),
        ],
    )
    def test_limits_that_make_no_sense_are_refused(self, values, sentence):
        with pytest.raises(InstanceError, match=sentence):
            Limits(**values)

    @pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
    def test_time_limits_that_are_none(self, seconds):
        with pytest.raises(InstanceError, match="give a number of seconds above 0"):
            solve(plain(one_job()), limits=Limits(seconds=seconds))

    def test_an_unknown_formulation_gets_the_nearest_name(self):
        with pytest.raises(InstanceError, match=r'unknown family "maleable".*malleable'):
            solve(plain(one_job()), "maleable")

    def test_an_unknown_backend_gets_the_nearest_name(self):
        with pytest.raises(InstanceError, match=r'unknown backend "higs".*highs'):
            solve(plain(one_job()), backend="higs")

    def test_an_objective_of_another_formulation_is_refused(self):
        with pytest.raises(InstanceError, match='"round" does not take objective "weighted_jct"'):
            solve(plain(one_job()), "round", objective="weighted_jct")

    def test_rounds_need_slots(self):
        with pytest.raises(InstanceError, match="has no slots; set slot_s"):
            solve(plain(one_job(), slot_s=None), "round")

    def test_an_unknown_models_is_refused(self):
        with pytest.raises(UnsupportedFeatureError, match=r'"round" has no array model.*arrays'):
            require_family("round").build("array", plain(one_job()))

    def test_restarts_longer_than_a_slot_are_refused_by_name(self):
        job = one_job("slow", restart_cost_s=11.0)
        with pytest.raises(UnsupportedFeatureError, match=r'job "slow": restart_cost_s 11'):
            solve(plain(job))

    def test_every_formulation_has_its_page(self):
        assert {"round", "malleable"} <= FAMILIES.keys()
        for found in FAMILIES.values():
            assert "(C1)" in found.page_text
            assert found.objective in (*found.objectives, "")

    @pytest.mark.parametrize(
        "name", [name for name, known in instance_families().items() if "pyomo" in known.models]
    )
    def test_the_pyomo_model_carries_the_names_of_the_page(self, name):
        instance = plain(one_job())
        if name == "saturn-spase":  # it starts at any time, in letters of its own
            instance = instance.replace(slot_s=None)
        model = alloc.model(instance, name).pyomo
        names = {constraint.name for constraint in model.component_objects()}
        assert any(n.startswith("C1_") for n in names)
        assert "x" in names or name == "saturn-spase"


class TestCertify:
    """A method that lies must be caught, whatever it says."""

    instance = plain(one_job(), gpus=2)
    settings = Settings()
    honest = Schedule((Run("a", 0, 0.0, 20.0, WHOLE),))

    def certified(self, found: Outcome, name: str = "weighted_jct"):
        return certify(FAMILIES["malleable"], self.instance, name, found, self.settings)

    def test_an_honest_outcome_is_optimal(self):
        certificate = self.certified(outcome(self.honest, 20.0)).certificate
        assert certificate.status == "optimal"
        assert certificate.verified
        assert certificate.gap == 0.0
        assert certificate.fingerprint == self.instance.fingerprint

    def test_a_bound_above_its_own_solution_is_false(self):
        with pytest.raises(CertificateError, match=r"the bound 21 of .* has 20; the bound"):
            self.certified(outcome(self.honest, 21.0))

    def test_a_bound_below_its_own_utility_is_false(self):
        allocation = Allocation((Assignment("a", 0, WHOLE),))
        with pytest.raises(CertificateError, match="the bound is false"):
            certify(
                FAMILIES["round"],
                self.instance,
                "goodput",
                outcome(allocation, 0.5),
                self.settings,
            )

    def test_rounding_within_tolerance_is_forgiven_and_trimmed(self):
        certificate = self.certified(outcome(self.honest, 20.0 + 1e-6)).certificate
        assert certificate.bound == 20.0

    def test_a_solution_that_breaks_a_rule_is_refused_with_the_rule(self):
        on_nothing = Schedule((Run("a", 0, 0.0, 20.0, (TaskPlacement("nowhere", "worker", 1),)),))
        with pytest.raises(CertificateError, match="liar returned a solution that breaks a rule"):
            self.certified(outcome(on_nothing, 0.0))

    def test_unfinished_work_is_refused(self):
        half = Schedule((Run("a", 0, 0.0, 10.0, WHOLE),))
        with pytest.raises(CertificateError, match="breaks a rule"):
            self.certified(outcome(half, 0.0))

    def test_nothing_found_and_nothing_proved_is_no_solution(self):
        result = self.certified(outcome(None, -math.inf, limit="time"))
        assert result.certificate.status == "no_solution"
        assert result.certificate.objective is None
        assert result.certificate.gap is None
        assert result.certificate.bound_proof == "none"
        assert not result.certificate.verified

    def test_no_bound_is_an_infinite_gap_not_zero(self):
        certificate = self.certified(outcome(self.honest, -math.inf)).certificate
        assert certificate.status == "feasible"
        assert certificate.gap == math.inf
        assert certificate.bound_proof == "none"

    def test_infeasible_carries_the_conflict(self):
        found = outcome(None, math.inf, infeasible=True, conflict="too little of all")
        result = self.certified(found)
        assert result.certificate.status == "infeasible"
        assert result.conflict == "too little of all"


class TestLimits:
    def test_a_tiny_time_limit_leaves_an_incumbent_and_a_true_bound(self, small):
        result = solve(small, limits=Limits(seconds=0.02))
        certificate = result.certificate
        assert certificate.status == "feasible"
        assert certificate.limit == "time"
        assert certificate.verified
        assert 0 < certificate.bound < certificate.objective

    @pytest.mark.parametrize("line", ["first schedule", "column generation 1", "price-guided"])
    def test_an_interrupt_keeps_what_was_found(self, small, line):
        """Ctrl-C in the middle of an hour's search must not throw the hour away."""

        def stop(text: str) -> None:
            if line in text:
                raise KeyboardInterrupt

        result = solve(small, limits=Limits(seconds=20.0), progress=stop)
        certificate = result.certificate
        assert certificate.limit == "interrupt"
        assert certificate.verified
        assert result.solution is not None
        assert 0 < certificate.bound <= certificate.objective

    @pytest.mark.long
    def test_ctrl_c_stops_highs_and_keeps_what_it_found(self):
        """It was heard when the time was up, and then everything was thrown away."""
        with ctrl_c_in_highs(incumbent):
            result = solve(load("elastic-small/03"), backend="highs", limits=Limits(seconds=500))
        certificate = result.certificate
        assert certificate.limit == "interrupt"
        assert result.solution is not None
        assert 0 < certificate.bound < certificate.objective

    def test_ctrl_c_in_a_round_keeps_what_its_core_has_found(self):
        """Three scarce resources, and jobs of which no two are alike: a long search."""
        rng = np.random.default_rng(1)
        jobs = tuple(
            Job(
                f"j{j}",
                0.0,
                float(rng.uniform(1e3, 1e5)),
                tuple(
                    Configuration(
                        (
                            TaskGroup(
                                "w",
                                n,
                                1000,
                                int(rng.integers(10, 4001)),
                                int(rng.integers(10, 4001)),
                            ),
                        ),
                        rate=float(n ** rng.uniform(0.5, 1.0)),
                    )
                    for n in (1, 2, 4)
                ),
            )
            for j in range(400)
        )
        kind = HostType("large", 300, "a100", 400_000, 400_000)
        instance = Instance("knapsack", flat_cluster("one", kind, 1), jobs, slot_s=60.0)
        with ctrl_c_in_highs(incumbent) as sent:
            result = solve(instance, "round", limits=Limits(seconds=500))
        assert sent
        assert result.certificate.limit == "interrupt"
        assert 0 < result.objective < result.bound

    @pytest.mark.parametrize("backend", ["highs", "pyomo", "cpsat"])
    def test_general_solvers_under_a_tiny_limit_say_only_what_they_know(self, small, backend):
        certificate = solve(small, backend=backend, limits=Limits(seconds=0.05)).certificate
        assert certificate.limit == "time"
        assert certificate.status in ("feasible", "no_solution")
        if certificate.status == "no_solution":
            assert certificate.objective is None
            assert certificate.bound == -math.inf or certificate.bound > 0

    def test_a_warm_start_is_never_worsened(self, small):
        good = solve(small, limits=Limits(seconds=4.0))
        again = solve(small, limits=Limits(seconds=0.02), warm_start=good.solution).certificate
        assert again.objective <= good.certificate.objective * (1 + 1e-9)
        cold = solve(small, limits=Limits(seconds=0.02)).certificate
        assert again.objective < cold.objective

    def test_a_warm_start_of_another_kind_is_ignored(self, small):
        start = Allocation(())
        assert solve(small, limits=Limits(seconds=0.02), warm_start=start).certificate.verified

    def test_a_warm_start_of_another_instance_is_refused(self, small):
        """A result says what it is for; a solution alone is held against every rule."""
        good = solve(small, limits=Limits(seconds=0.02))
        first, *others = small.jobs
        other = small.replace(jobs=(first.replace(work=100 * first.work), *others))
        assert solve(small, limits=Limits(seconds=0.02), warm_start=good).certificate.verified
        with pytest.raises(InstanceError, match="the result is for the instance with fingerprint"):
            solve(other, warm_start=good)
        with pytest.raises(InstanceError, match=r"not a solution of .* has .* work units left"):
            solve(other, warm_start=good.solution)
        with pytest.raises(InstanceError, match="it is not a solution of"):
            solve(small, warm_start=Schedule(()))
        with pytest.raises(InstanceError, match="the result holds no solution"):
            solve(small, warm_start=good.replace(solution=None))

    def test_progress_is_told_and_logged(self, small):
        lines: list[str] = []
        result = solve(small, limits=Limits(seconds=0.02), progress=lines.append)
        assert tuple(lines) == result.log
        assert any("first schedule" in line for line in lines)

    @pytest.mark.parametrize("backend", ["auto", "highs", "pyomo", "cpsat"])
    def test_numbers_of_workers_may_change_from_call_to_call(self, backend):
        """HiGHS has one pool of threads a process, and once failed on every size but the first."""
        instance = plain(one_job(), one_job("b", 30.0))
        for seed, workers in ((0, 1), (7, 2), (8, 1), (9, 3)):
            certificate = solve(
                instance, backend=backend, limits=Limits(seed=seed, workers=workers)
            ).certificate
            assert (certificate.seed, certificate.workers) == (seed, workers)
            assert certificate.objective == pytest.approx(70.0, rel=1e-3)


class TestRounds:
    @pytest.mark.parametrize("backend", ["auto", "highs", "pyomo", "cpsat"])
    @pytest.mark.parametrize(
        "instance",
        [
            plain(one_job(tenant="red"), tenants=(Tenant("red", 0),)),
            plain(Job("later", 50.0, 20.0, (rigid_gang(1),))),
        ],
        ids=["a quota of nothing", "nobody has arrived"],
    )
    def test_a_round_in_which_nothing_can_run_is_solved(self, instance, backend):
        """Empty models have statuses of their own in every solver."""
        result = solve(instance, "round", backend)
        assert result.certificate.status == "optimal"
        assert result.certificate.objective == 0.0
        assert result.certificate.bound == 0.0
        assert result.solution.assignments == ()

    def test_utilities_of_zero_choose_nothing(self):
        data = round_data(plain(one_job(), one_job("b")), "progress")
        nothing = replace(data, utility=np.zeros(len(data.utility)))
        answer = optimise_round(nothing)
        assert answer.value == answer.bound == 0.0
        assert not answer.x.any()
        assert price_bound(nothing, answer.prices) == 0.0

    def test_many_jobs_go_through_a_core_smaller_than_all_columns(self):
        """Beyond the first core's size the answer must still equal that of HiGHS on everything."""
        rng = np.random.default_rng(3)
        tables = [
            tuple(rigid_gang(int(n), rate=float(rng.integers(1, 60)) / 7) for n in range(1, 9))
            for _ in range(60)
        ]
        jobs = tuple(
            Job(f"job-{j}", 0.0, float(rng.integers(100, 900)), tables[j % 60]) for j in range(150)
        )
        instance = plain(*jobs, gpus=97)
        data = round_data(instance, "progress")
        answer = optimise_round(data)
        assert 60 < answer.core < len(data.utility)
        whole = solve(instance, "round", "highs").certificate
        assert answer.value == pytest.approx(whole.objective, rel=2e-6)
        assert answer.bound >= whole.objective * (1 - 1e-9)
