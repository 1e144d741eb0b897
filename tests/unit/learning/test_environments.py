"""The environments keep the contract of Gymnasium: registered, checked, masked, seeded."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from small_worlds import BARE, SMALL, play

import alloc.learning  # noqa: F401 (registers the environments)
from alloc.errors import SimulationError
from alloc.instances import generate_elastic
from alloc.learning.environments import (
    ElasticAllocation,
    ElasticEpisodes,
    ElasticVector,
    GangEpisodes,
)
from alloc.schedulers.learned.domain_choice import DomainFeatures
from alloc.schedulers.learned.window_features import ENCODINGS, WindowFeatures


@pytest.mark.parametrize("name", ["ElasticAllocation-v0", "GangPlacement-v0"])
@pytest.mark.parametrize("space", ["", "alloc/"])
def test_environment_is_registered_and_clean(name: str, space: str) -> None:
    """Under `check_env`, with warnings as errors as in all tests; under both names."""
    env = gymnasium.make(space + name)
    check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_elastic_is_clean_in_every_encoding(encoding: str) -> None:
    options: dict[str, Any] = {
        "features": WindowFeatures(window=4, encoding=encoding),
        "reward": "jobs-in-system",
    }
    check_env(gymnasium.make("alloc/ElasticAllocation-v0", episodes=SMALL, **options).unwrapped)


@pytest.mark.parametrize(
    "options",
    [
        {"episodes": GangEpisodes(num_jobs=10, slot_s=600.0)},
        {"features": DomainFeatures("host", 16, skip=True), "knowledge": "none"},
    ],
)
def test_gangs_are_clean_in_slots_and_by_host(options: dict[str, Any]) -> None:
    check_env(gymnasium.make("alloc/GangPlacement-v0", **options).unwrapped)


def test_masks_are_as_others_expect_them() -> None:
    """int8 for Gymnasium's sampling, bool for Stable-Baselines3; new arrays each time."""
    env = ElasticAllocation(SMALL, features=BARE)
    _, info = env.reset(seed=0)
    assert info["action_mask"].dtype == np.int8
    assert env.action_masks().dtype == np.bool_
    assert (env.action_masks() == info["action_mask"]).all()
    env.action_masks()[:] = False
    assert env.action_masks().any()


def test_seed_decides_all_and_reset_goes_on() -> None:
    """The same seed plays the same episodes; without one the next episode is another."""
    env = ElasticAllocation(SMALL, speed_error=0.1, work_error=0.2, knowledge="estimate")
    played = []
    for _ in range(2):
        env.action_space.seed(1)
        first = play(env, np.random.default_rng(0), seed=5)
        second = play(env, np.random.default_rng(0))
        played.append((first[0], second[0], len(first[1])))
    assert played[0] == played[1]
    assert played[0][0] != played[0][1]


def test_a_step_before_the_first_reset_says_so() -> None:
    """Vectors have no wrapper of Gymnasium around them that would."""
    with pytest.raises(SimulationError, match=r"call reset\(\) before the first step"):
        ElasticAllocation(SMALL).step(0)
    with pytest.raises(SimulationError, match=r"call reset\(\) before the first step"):
        ElasticVector(2, SMALL).step(np.zeros(2, np.int64))


def test_seeds_of_numpy_are_seeds() -> None:
    """Seeds that are drawn come as numpy's integers."""
    vectors = ElasticVector(2, SMALL), ElasticVector(2, SMALL)
    drawn, plain = vectors[0].reset(seed=np.int64(3))[0], vectors[1].reset(seed=3)[0]  # type: ignore[arg-type]
    assert np.array_equal(drawn, plain)


def test_sync_vectors_of_gymnasium_work_too() -> None:
    envs = gymnasium.make_vec("alloc/GangPlacement-v0", num_envs=2, vectorization_mode="sync")
    seen, infos = envs.reset(seed=0)
    assert seen.shape == (2, *DomainFeatures().shape)
    assert infos["action_mask"].shape == (2, DomainFeatures().num_actions)
    envs.close()


def test_larger_worlds_are_generated_by_name() -> None:
    """The default episodes are those of the generator with the drawn seed."""
    instance = ElasticEpisodes(num_jobs=5)(np.random.default_rng(3))
    seed = int(np.random.default_rng(3).integers(2**31))
    again = generate_elastic(
        instance.name, num_jobs=5, num_hosts=48, run_slots=(1.0, 10.0), seed=seed
    )
    assert again.fingerprint == instance.fingerprint


@pytest.mark.long
def test_without_gymnasium_the_rest_works_and_the_cure_is_said() -> None:
    """Trained policies run without it; the environments say what to install."""
    program = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "import alloc.learning, alloc.schedulers.learned.window\n"
        "from alloc.errors import BackendUnavailableError\n"
        "try:\n"
        "    from alloc.learning.environments import ElasticAllocation\n"
        "except BackendUnavailableError as error:\n"
        "    print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert "the environments need Gymnasium, which cannot be loaded" in run.stdout
    assert 'pip install ".[gym]"' in run.stdout
