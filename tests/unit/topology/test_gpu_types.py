"""The table of GPU types."""

import itertools
import re
from dataclasses import fields

import pytest

from alloc.errors import InstanceError
from alloc.topology import GPU_TYPES, GpuType, gpu_type
from alloc.topology.gpu_types import ALIASES

KNOWN = [kind for kind in GPU_TYPES.values() if kind.name != "generic"]
# Narrower numbers are never slower; FP64 and FP32 are left out, which are not tensor rates.
TENSOR_RATES = ("tf32_tflops", "fp16_tflops", "fp8_tflops", "fp4_tflops")


@pytest.mark.parametrize("kind", KNOWN, ids=lambda kind: kind.name)
def test_every_entry_names_its_source_and_has_the_figures_every_gpu_has(kind):
    """A figure without a source cannot be checked; memory, bandwidth and power every card has."""
    assert "NVIDIA" in kind.source
    assert kind.memory_mib >= 11 * 1024
    assert kind.fp32_tflops > 0
    assert kind.memory_bandwidth_gb_per_s > 0
    assert kind.power_w > 0


@pytest.mark.parametrize("kind", KNOWN, ids=lambda kind: kind.name)
def test_a_price_has_a_year_and_a_source_and_neither_without_it(kind):
    """Planning multiplies prices: one without year or origin would look like a fact."""
    stated = kind.list_price_usd is not None
    assert (kind.list_price_year is not None) == stated
    assert bool(kind.price_source) == stated


@pytest.mark.parametrize("kind", KNOWN, ids=lambda kind: kind.name)
def test_halving_the_width_of_numbers_at_most_doubles_and_never_lowers_the_rate(kind):
    """A rate with sparsity in the table (the usual slip) would be four times the one before."""
    rates = [getattr(kind, name) for name in TENSOR_RATES if getattr(kind, name) is not None]
    for wide, narrow in itertools.pairwise(rates):
        assert wide <= narrow <= 2.06 * wide


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("a100-sxm-80gb", "fp16_tflops", 312),
        ("a100-pcie-40gb", "power_w", 250),
        ("h100-sxm-80gb", "fp16_tflops", 989.5),
        ("h100-sxm-80gb", "nvlink_per_direction_gb_per_s", 450),
        ("h800-sxm-80gb", "nvlink_per_direction_gb_per_s", 200),
        ("a800-sxm-80gb", "nvlink_gb_per_s", 400),
        ("h200-sxm-141gb", "memory_bandwidth_gb_per_s", 4800),
        ("gb200-186gb", "nvlink_per_direction_gb_per_s", 900),
        ("v100-sxm-32gb", "memory_mib", 32768),
        ("k80", "memory_mib", 12288),
        ("t4", "nvlink_per_direction_gb_per_s", None),
        ("rtx-4090", "list_price_usd", 1599),
    ],
)
def test_figures_that_people_know_by_heart(name, field, value):
    """Guards against a slip of a row when the table grows."""
    assert getattr(gpu_type(name), field) == value


def test_names_are_found_whatever_their_case_and_by_the_names_in_traces():
    """Traces write V100M32 and P100; instances should reach the same figures."""
    assert gpu_type("GTX 1080 Ti") is GPU_TYPES["gtx-1080-ti"]
    assert gpu_type("rtx_4090") is GPU_TYPES["rtx-4090"]
    assert gpu_type("V100M32") is GPU_TYPES["v100-sxm-32gb"]
    assert gpu_type("H100") is GPU_TYPES["h100-sxm-80gb"]


def test_every_alias_leads_to_an_entry_and_hides_none():
    """An alias equal to a name would make the entry unreachable."""
    assert set(ALIASES.values()) <= set(GPU_TYPES)
    assert not set(ALIASES) & set(GPU_TYPES)


def test_generic_has_no_figures():
    """A placeholder with numbers would be believed."""
    generic = gpu_type("generic")
    numbers = {f.name for f in fields(GpuType)} - {"name", "vendor", "source", "price_source"}
    assert all(getattr(generic, name) is None for name in numbers)


def test_a_misspelled_name_gets_a_suggestion():
    with pytest.raises(
        InstanceError,
        match=re.escape(
            'GPU type "h100-smx-80gb" is not in the table; did you mean "h100-sxm-80gb"?'
        ),
    ):
        gpu_type("h100-smx-80gb")


def test_the_beginning_of_several_names_gets_them_all():
    with pytest.raises(InstanceError, match='mean "a100-sxm-40gb" or "a100-sxm-80gb"'):
        gpu_type("a100 sxm")


def test_a_name_like_no_other_is_told_the_way_out():
    with pytest.raises(
        InstanceError, match=r'"???????" is not in the table\. .* "generic"'.replace("?", r"\?")
    ):
        gpu_type("???????")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ""}, "empty name"),
        ({"memory_mib": 0}, '"x": memory_mib is 0; it must be more than 0'),
        ({"memory_mib": 80 * 1024**3}, "the unit is MiB"),
        ({"power_w": float("nan")}, "power_w is nan; give a finite number"),
        ({"fp8_tflops": -1.0}, "fp8_tflops is -1"),
        ({"list_price_usd": 100.0}, "a price needs its year"),
    ],
)
def test_a_gpu_type_of_ones_own_is_checked(changes, message):
    with pytest.raises(InstanceError, match=message):
        GpuType(**{"name": "x", "vendor": "y", "memory_mib": 1024, **changes})
