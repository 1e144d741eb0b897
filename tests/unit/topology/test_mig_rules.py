"""The MIG placement table, held against what NVIDIA's guide, a driver and MISO say."""

from __future__ import annotations

import itertools
import json

import pytest
from needs import need_data

from alloc.errors import InstanceError
from alloc.topology import HostType, flat_cluster
from alloc.topology.gpu_fit import gpu_misfit
from alloc.topology.mig import (
    MIG_PROFILES,
    is_layout,
    layouts,
    maximal_layouts,
    mig_memory_mib,
    mig_profiles,
    require_profile,
)
from alloc.topology.slices import GpuSlices
from alloc.workload import Configuration, TaskGroup

FIVE = frozenset({"1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"})


@pytest.mark.parametrize("gpu_type", MIG_PROFILES)
def test_names_say_compute_slices_and_memory(gpu_type: str) -> None:
    """A profile's name is its size: a wrong row of the table would show here."""
    for name, profile in mig_profiles(gpu_type).items():
        compute, memory = name.removesuffix("+me").removesuffix("gb").split("g.")
        assert int(compute) == profile.compute_slices
        gb = mig_memory_mib(gpu_type, name) / 1024
        assert abs(int(memory) - gb) <= 0.5  # 1g.18gb of an H200 is 17.6
        assert name.endswith("+me") == profile.media


@pytest.mark.parametrize("gpu_type", MIG_PROFILES)
def test_so_many_instances_as_the_guide_says_fit_and_no_more(gpu_type: str) -> None:
    """The column "Number of Instances Available" follows from the starts."""
    for profile in mig_profiles(gpu_type).values():
        assert GpuSlices(mig_profiles(gpu_type).values()).room(profile) == profile.most


def test_nineteen_full_layouts_of_an_a100() -> None:
    """The guide draws the A100 with five profiles; the placements allow exactly 19 ways."""
    full = maximal_layouts("a100-sxm-40gb", FIVE)
    assert len(full) == 19
    assert (("4g.20gb", 0), ("3g.20gb", 4)) in full
    assert len({tuple(sorted(n for n, _ in layout)) for layout in full}) == 14


def test_layouts_are_what_trying_every_set_of_instances_finds() -> None:
    """The enumeration against brute force over all sets of at most seven placed instances."""
    placed = [(p.name, s) for p in mig_profiles("a100").values() for s in p.starts]
    small = [x for x in placed if x[0] in ("2g.10gb", "3g.20gb", "1g.10gb", "1g.5gb+me")]
    tried = {
        frozenset(some)
        for size in range(len(small) + 1)
        for some in itertools.combinations(small, size)
        if size <= 5 and is_layout("a100", some)
    }
    names = frozenset(name for name, _ in small)
    assert {frozenset(layout) for layout in layouts("a100", names)} == tried


def test_miso_lists_all_full_layouts_but_one() -> None:
    """The published list of 18 has every multiset of ours except 4g + 3g."""
    codes = json.loads((need_data("traces") / "miso" / "partition_code.json").read_text())
    theirs = {tuple(sorted(code)) for code in codes.values()}
    ours = {
        tuple(sorted(int(name[0]) for name, _ in layout))
        for layout in maximal_layouts("a100", FIVE)
    }
    assert len(codes) == 18
    assert ours - theirs == {(3, 4)}
    assert theirs <= ours


def test_media_extensions_are_there_once() -> None:
    assert is_layout("h100", [("1g.10gb+me", 0), ("1g.10gb", 1)])
    assert not is_layout("h100", [("1g.10gb+me", 0), ("1g.10gb+me", 1)])


def test_the_wide_single_slice_takes_two_memory_slices() -> None:
    """1g.20gb at 6 uses the eighth memory slice, which nothing else of one compute slice does."""
    assert is_layout("h100", [("1g.20gb", s) for s in (0, 2, 4, 6)])
    assert not is_layout("h100", [("1g.20gb", 1)])
    assert not is_layout("h100", [("1g.20gb", 0), ("1g.10gb", 1)])


def test_a_wrong_profile_is_answered_with_the_nearest_of_the_type() -> None:
    with pytest.raises(
        InstanceError,
        match=r'job "x": GPU type a100-sxm-40gb has no MIG profile "3g.40gb"; '
        r'did you mean "3g.20gb"\?',
    ):
        require_profile("a100-sxm-40gb", "3g.40gb", 'job "x"')
    with pytest.raises(InstanceError, match=r'did you mean "2g.35gb"\?'):
        require_profile("h200", "2g.36gb")
    with pytest.raises(InstanceError, match=r'did you mean "7g.80gb"\?'):
        require_profile("h100", "7g80gb")
    with pytest.raises(InstanceError, match="type v100, which has no MIG"):
        require_profile("v100", "1g.5gb")


def test_a_cluster_without_the_slices_is_refused() -> None:
    """The reason counts slices, or names memory: `misfit` passes it on to the instance."""
    cluster = flat_cluster("c", HostType("box", 2, "a100", 8000, 1024), 1)

    def reason(**wanted: object) -> str | None:
        return gpu_misfit(cluster, Configuration((TaskGroup("w", **wanted),), 1.0))  # type: ignore[arg-type]

    assert reason(count=4, mig_profile="3g.20gb") is None
    assert "all GPUs together hold 4" in str(reason(count=5, mig_profile="3g.20gb"))
    assert 'did you mean "3g.20gb"' in str(reason(count=1, mig_profile="3g.71gb"))
    assert reason(count=1, gpu_milli=500, gpu_memory_mib=40960) is None
    assert "a100 has 40960" in str(reason(count=1, gpu_milli=500, gpu_memory_mib=40961))
