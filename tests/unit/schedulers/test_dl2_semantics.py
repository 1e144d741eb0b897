"""The policies of the DL2 evaluation against a second telling of their rules.

The reference below is written from the published rules in their own units (8 CPU and 8 GPU slots a
node, fractions of epochs, one array entry a node), in plain loops, and shares no code with alloc.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from alloc.problems.allocation.instance import Instance
from alloc.schedulers import ClusterState, Decision, Scheduler, make_scheduler
from alloc.simulation import simulate
from alloc.topology import HostType, flat_cluster
from alloc.workload import Configuration, Job, TaskGroup

# a, b, c, d, e of speed = 1 / (a/w + b + c*w/u + d*w + e*u) samples/s: this project's own fits to
# the measurements of Peng et al. (DL2). Then whether a worker needs a GPU, and samples an epoch.
MODELS = {
    "resnet-50": ((0.00394, 0.01306, 0.01317, 0.0002304, 0.0), True, 115),
    "vgg-16": ((0.01695, 0.01816, 0.02523, 0.004237, 0.0), True, 115),
    "resnext-110": ((0.0005393, 0.00122, 0.0008627, 0.0001556, 9.112e-06), True, 390),
    "inception-bn": ((0.003105, 0.001204, 0.0013, 0.0001516, 2.197e-05), True, 120),
    "seq2seq": ((0.001038, 0.0008451, 0.0003787, 0.0002054, 0.0), True, 780),
    "cnn-text": ((0.007464, 0.006891, 0.000475, 0.0003388, 0.0), False, 193),
    "dssm": ((0.00155, 0.0004598, 0.0, 2.852e-05, 8.803e-07), False, 349),
    "wlm": ((0.0005874, 0.001496, 0.0009914, 0.0001924, 0.0), True, 165),
}
SLOT_S = 1200.0
MOST = 5


def speed(model: str, workers: int, servers: int) -> float:
    a, b, c, d, e = MODELS[model][0]
    return 1.0 / (a / workers + b + c * workers / servers + d * workers + e * servers)


@dataclass
class RefJob:
    """A job in DL2's terms: epochs instead of work."""

    number: int
    model: str
    arrives_in: int
    epochs: float
    progress: float = 0.0
    workers: int = 0
    servers: int = 0
    end: float | None = None

    @property
    def worker_slots(self) -> tuple[int, int]:
        return (2, 4) if MODELS[self.model][1] else (2, 0)

    def epochs_a_slot(self, workers: int, servers: int) -> float:
        if not workers or not servers:
            return 0.0
        return speed(self.model, workers, servers) * SLOT_S / MODELS[self.model][2]


@dataclass
class RefCluster:
    """Used CPU and GPU slots of every node."""

    num_nodes: int
    cpu: list[int] = field(default_factory=list)
    gpu: list[int] = field(default_factory=list)

    def clear(self) -> None:
        self.cpu = [0] * self.num_nodes
        self.gpu = [0] * self.num_nodes

    def fits(self, node: int, cpu: int, gpu: int) -> bool:
        if self.cpu[node] + cpu > 8 or self.gpu[node] + gpu > 8:
            return False
        self.cpu[node] += cpu
        self.gpu[node] += gpu
        return True

    def least_loaded(self) -> int:
        best = 0
        for node in range(1, self.num_nodes):
            if self.cpu[node] + self.gpu[node] < self.cpu[best] + self.gpu[best]:
                best = node
        return best

    def give(self, job: RefJob, workers: int, servers: int) -> bool:
        """Give a job tasks that share the least loaded node."""
        cpu = workers * job.worker_slots[0] + servers * 2
        gpu = workers * job.worker_slots[1]
        if not self.fits(self.least_loaded(), cpu, gpu):
            return False
        job.workers += workers
        job.servers += servers
        return True


def ref_drf(jobs: list[RefJob], cluster: RefCluster) -> None:
    total = 8 * cluster.num_nodes

    def share(job: RefJob) -> float:
        cpu = job.workers * job.worker_slots[0] + job.servers * 2
        return max(cpu / total, job.workers * job.worker_slots[1] / total)

    queue = list(jobs)
    while queue:
        poorest = min(queue, key=lambda job: (share(job), job.arrives_in, job.number))
        if not cluster.give(poorest, 1, 1):
            return
        if poorest.workers == MOST:
            queue.remove(poorest)


def ref_in_turn(jobs: list[RefJob], cluster: RefCluster) -> None:
    for job in jobs:
        while job.workers < MOST:
            if not cluster.give(job, 1, 1):
                return


def ref_srtf(jobs: list[RefJob], cluster: RefCluster) -> None:
    ref_in_turn(
        sorted(jobs, key=lambda j: (1 - j.progress / j.epochs, j.arrives_in, j.number)), cluster
    )


def ref_fifo(jobs: list[RefJob], cluster: RefCluster) -> None:
    ref_in_turn(sorted(jobs, key=lambda j: (j.arrives_in, j.number)), cluster)


def ref_tetris(jobs: list[RefJob], cluster: RefCluster) -> None:
    jobs = sorted(jobs, key=lambda j: (j.arrives_in, j.number))
    for node in range(cluster.num_nodes):
        while True:
            align = []
            remaining = []
            for job in jobs:
                cpu, gpu = job.worker_slots[0] + 2, job.worker_slots[1]
                align.append((8 - cluster.cpu[node]) * cpu + (8 - cluster.gpu[node]) * gpu)
                remaining.append((cpu + gpu) * (1 - job.progress / job.epochs))
            weight = (sum(align) / len(jobs)) / (sum(remaining) / len(jobs))
            best = None
            for k, job in enumerate(jobs):
                if job.workers == MOST:
                    continue
                score = align[k] + weight * remaining[k]
                if best is None or score > best[0] + 1e-9:
                    best = (score, job)
            if best is None or weight == 0:
                break
            job = best[1]
            if not cluster.fits(node, job.worker_slots[0] + 2, job.worker_slots[1]):
                break
            job.workers += 1
            job.servers += 1


def ref_optimus(jobs: list[RefJob], cluster: RefCluster) -> None:
    jobs = sorted(jobs, key=lambda j: (j.arrives_in, j.number))
    out: set[int] = set()
    while True:
        offers = []
        for rank, job in enumerate(jobs):
            if job.number in out:
                continue
            if job.workers == 0:
                offers.append((float(2**31 - 1), rank, "worker"))
                continue
            if job.servers == 0:
                offers.append((float(2**31 - 1), rank, "ps"))
                continue
            left = job.epochs - job.progress
            now = left / job.epochs_a_slot(job.workers, job.servers)
            choices = []
            if job.servers < MOST:
                gain = now - left / job.epochs_a_slot(job.workers, job.servers + 1)
                choices.append((gain, "ps"))
            if job.workers < MOST:
                gain = now - left / job.epochs_a_slot(job.workers + 1, job.servers)
                if not choices or gain > choices[0][0]:
                    choices = [(gain, "worker")]
            if not choices:
                out.add(job.number)
                continue
            offers.append((choices[0][0], rank, choices[0][1]))
        if not offers:
            return
        gain, rank, role = max(offers, key=lambda offer: (offer[0], -offer[1]))
        if gain <= 0:
            return
        if not cluster.give(jobs[rank], int(role == "worker"), int(role == "ps")):
            return


REFERENCES: dict[str, Callable[[list[RefJob], RefCluster], None]] = {
    "drf": ref_drf,
    "srtf-dl2": ref_srtf,
    "fifo": ref_fifo,
    "tetris": ref_tetris,
    "optimus": ref_optimus,
}


def run_reference(
    name: str, jobs: list[RefJob], num_nodes: int
) -> tuple[list[dict[int, tuple[int, int]]], list[float]]:
    """Run a policy of the reference; return who had what in each slot, and the ends in slots."""
    cluster = RefCluster(num_nodes)
    history: list[dict[int, tuple[int, int]]] = []
    slot = 0
    while any(job.end is None for job in jobs):
        present = [job for job in jobs if job.arrives_in <= slot and job.end is None]
        cluster.clear()
        for job in present:
            job.workers = job.servers = 0
        if present:
            REFERENCES[name](present, cluster)
            history.append(
                {j.number: (j.workers, j.servers) for j in present if j.workers and j.servers}
            )
        for job in present:
            epochs = job.epochs_a_slot(job.workers, job.servers)
            if epochs > 0 and job.progress + epochs >= job.epochs * (1 - 1e-12):
                job.end = slot + (job.epochs - job.progress) / epochs
            job.progress += epochs
        slot += 1
        assert slot < 10_000
    return history, [job.end for job in jobs if job.end is not None]


def draw(seed: int) -> tuple[list[RefJob], int]:
    """Draw jobs and a number of nodes, from roomy to crowded."""
    rng = np.random.default_rng(seed)
    num_nodes = int(rng.integers(2, 12))
    jobs = []
    for number in range(int(rng.integers(4, 14))):
        model = str(rng.choice(list(MODELS)))
        epochs = float(rng.uniform(0.3, 6.0)) * speed(model, 2, 2) * SLOT_S / MODELS[model][2]
        jobs.append(RefJob(number, model, int(rng.integers(0, 5)), epochs))
    return jobs, num_nodes


def as_instance(jobs: list[RefJob], num_nodes: int) -> Instance:
    """Return the same jobs as an instance of alloc: work in samples, rates in samples/s."""
    tables = {}
    for model, (_, needs_gpu, _) in MODELS.items():
        tables[model] = tuple(
            Configuration(
                (
                    TaskGroup("worker", w, 1000 if needs_gpu else 0, 2000),
                    TaskGroup("ps", u, 0, 2000),
                ),
                speed(model, w, u),
            )
            for w in range(1, MOST + 1)
            for u in range(1, MOST + 1)
        )
    node = HostType("node", 2, "generic", 8000, 0)
    return Instance(
        "dl2-like",
        flat_cluster("nodes", node, num_nodes),
        tuple(
            Job(
                f"job-{job.number}",
                job.arrives_in * SLOT_S,
                job.epochs * MODELS[job.model][2],
                tables[job.model],
            )
            for job in jobs
        ),
        slot_s=SLOT_S,
    )


class Recorder:
    """A policy that writes down what the policy inside it decides."""

    def __init__(self, inner: Scheduler) -> None:
        self.inner = inner
        self.name, self.needs, self.information = inner.name, inner.needs, inner.information
        self.history: list[dict[int, tuple[int, int]]] = []

    def reset(self) -> None:
        self.inner.reset()

    def decide(self, state: ClusterState) -> Decision:
        decision = self.inner.decide(state)
        self.history.append(
            {
                int(a.job.removeprefix("job-")): divmod(a.configuration, MOST)
                for a in decision.assign
            }
        )
        return decision


@pytest.mark.parametrize("name", REFERENCES)
def test_policy_decides_as_the_published_rules_say(name: str) -> None:
    """Every slot's decision and every completion agree: comparisons with DL2's world rest on it."""
    crowded = 0
    for seed in range(25):
        jobs, num_nodes = draw(seed)
        instance = as_instance(jobs, num_nodes)
        policy = Recorder(make_scheduler(name))
        result = simulate(instance, policy)
        expected, ends = run_reference(name, jobs, num_nodes)
        found = [{j: (w + 1, u + 1) for j, (w, u) in slot.items()} for slot in policy.history]
        assert found == expected, f"seed {seed}"
        for job, end in zip(jobs, ends, strict=True):
            assert result.completion_s[f"job-{job.number}"] == pytest.approx(end * SLOT_S, abs=1e-6)
        crowded += any(len(slot) < len(instance.jobs) for slot in expected)
    assert crowded > 5


def two_gpu_jobs(num_nodes: int, first: str, second: str) -> Instance:
    jobs = [RefJob(0, first, 0, 1e6), RefJob(1, second, 0, 1e6)]
    return as_instance(jobs, num_nodes)


def first_decision(instance: Instance, policy: Scheduler) -> dict[str, tuple[int, int]]:
    """Return the workers and PSs that each job gets in the first slot."""
    recorder = Recorder(policy)
    simulate(instance, recorder, max_time_s=SLOT_S)
    return {f"job-{j}": (w + 1, u + 1) for j, (w, u) in recorder.history[0].items()}


def test_drf_by_hand() -> None:
    """Two nodes hold four bundles; DRF deals them out two and two, FIFO gives the first all."""
    instance = two_gpu_jobs(2, "resnet-50", "vgg-16")
    assert first_decision(instance, make_scheduler("drf")) == {"job-0": (2, 2), "job-1": (2, 2)}
    assert first_decision(instance, make_scheduler("fifo")) == {"job-0": (4, 4)}


def test_first_misfit_ends_the_round_unless_told_to_skip() -> None:
    """One node with two GPUs: the third GPU bundle misses, and a CPU job behind it waits or not.

    With 2 GPU bundles the node is full, so the node here has more CPU than DL2's.
    """
    jobs = [RefJob(0, "resnet-50", 0, 1e6), RefJob(1, "dssm", 0, 1e6)]
    instance = as_instance(jobs, 1)
    roomy = instance.replace(
        topology=flat_cluster("one", HostType("node", 2, "generic", 16000, 0), 1)
    )
    assert first_decision(roomy, make_scheduler("fifo")) == {"job-0": (2, 2)}
    assert first_decision(roomy, make_scheduler("fifo", skip=True)) == {
        "job-0": (2, 2),
        "job-1": (2, 2),
    }


def test_task_fits_only_on_the_least_loaded_host() -> None:
    """DL2 tries no other host: a full GPU on the least loaded one ends the round.

    Optimus gives each job a worker and a PS on separately chosen hosts, always the least loaded.
    """
    instance = two_gpu_jobs(1, "resnet-50", "resnet-50")
    assert first_decision(instance, make_scheduler("optimus")) == {
        "job-0": (1, 1),
        "job-1": (1, 1),
    }


def test_srtf_by_fraction_is_not_srtf_by_time() -> None:
    """The published rule compares fractions: a long new job ties with a short new one."""
    jobs = [RefJob(0, "resnet-50", 0, 1e6), RefJob(1, "resnet-50", 0, 10.0)]
    instance = as_instance(jobs, 1)
    assert first_decision(instance, make_scheduler("srtf-dl2")) == {"job-0": (2, 2)}
    assert first_decision(instance, make_scheduler("srtf", by="fraction")) == {"job-0": (2, 2)}
    assert first_decision(instance, make_scheduler("srtf")) == {"job-1": (2, 2)}


def test_tetris_sign_decides_between_long_and_short_work() -> None:
    """As published Tetris serves the job with more work left; as intended the one with less."""
    jobs = [RefJob(0, "resnet-50", 0, 100.0), RefJob(1, "resnet-50", 0, 100.0)]
    instance = as_instance(jobs, 1)
    half_done = instance.jobs[0].replace(work_done=0.5 * instance.jobs[0].work)
    instance = instance.replace(jobs=(half_done, instance.jobs[1]))
    assert first_decision(instance, make_scheduler("tetris")) == {"job-1": (2, 2)}
    assert first_decision(instance, make_scheduler("tetris", shortest_first=True)) == {
        "job-0": (2, 2)
    }


def test_optimus_per_dominant_resource_prefers_the_smaller_task() -> None:
    """Divided by what it uses, a PS (a quarter of the CPUs) beats a worker (half the GPUs).

    By itself the worker saves more: rates 1, 2 (one more worker), 1.9 (one more PS).
    """
    rates = {(1, 1): 1.0, (2, 1): 2.0, (1, 2): 1.9}
    table = tuple(
        Configuration((TaskGroup("worker", w, 1000, 2000), TaskGroup("ps", u, 0, 2000)), rate)
        for (w, u), rate in rates.items()
    )
    topology = flat_cluster("one", HostType("node", 2, "generic", 8000, 0), 1)
    instance = Instance("pick", topology, (Job("a", 0.0, 1e6, table),), slot_s=SLOT_S)
    chosen = {}
    for divide in (False, True):
        policy = make_scheduler("optimus", per_dominant_resource=divide)
        chosen[divide] = simulate(instance, policy, max_time_s=SLOT_S).schedule.runs[0]
    assert chosen[False].configuration == 1
    assert chosen[True].configuration == 2


def test_random_ps_gives_one_worker_each_and_draws_the_rest() -> None:
    """The rule without learning: nobody gets a second worker, and the seed decides the PSs."""
    jobs = [RefJob(number, "dssm", 0, 500_000.0) for number in range(4)]
    instance = as_instance(jobs, 4)
    policy = Recorder(make_scheduler("random-ps"))
    simulate(instance, policy, rng=1)
    assert {w for slot in policy.history for w, _ in slot.values()} == {0}
    assert len({u for slot in policy.history for _, u in slot.values()}) > 1
    again, other = Recorder(make_scheduler("random-ps")), Recorder(make_scheduler("random-ps"))
    simulate(instance, again, rng=1)
    simulate(instance, other, rng=2)
    assert again.history == policy.history != other.history
