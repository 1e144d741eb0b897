"""GPU types: memory, peak rates, bandwidth, power and price, in one cited table.

Rates are dense: where a data sheet only prints a rate with 2:4 sparsity, half of it is taken.
Bandwidths of NVLink are totals of both directions, as data sheets print them. Memory is the data
sheet's GB times 1,024 MiB; a driver shows a few per cent less.

Prices are rough: a launch price, or what the press reported at the time, named with its year. Where
no source was at hand the price is None rather than a guess.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from alloc.errors import InstanceError, nearest
from alloc.units import require_memory, require_positive

# What is not a quantity.
_WORDS = ("name", "vendor", "source", "price_source")


@dataclass(frozen=True)
class GpuType:
    """A type of GPU, as its data sheet describes one GPU of it.

    Every number is None where the GPU lacks the feature or the source does not give it.

    Parameters
    ----------
    name
        Unique name in lower case, for example ``"h100-sxm-80gb"``.
    vendor
        Maker.
    memory_mib
        Memory of the GPU, MiB.
    fp64_tflops, fp32_tflops
        Peak rates without tensor cores, TFLOP/s.
    tf32_tflops, fp16_tflops, fp8_tflops, fp4_tflops
        Peak dense rates with tensor cores where there are any, accumulating in FP32, TFLOP/s.
        ``fp16`` is FP16, and BF16 too since Ampere.
    memory_bandwidth_gb_per_s
        Bandwidth of the GPU's memory, GB/s.
    nvlink_gb_per_s
        NVLink bandwidth of the GPU, both directions together, GB/s.
    power_w
        Power limit of the board or module, W.
    list_price_usd, list_price_year
        Approximate price of one GPU, US dollars, and the year it is from; both or neither.
    source
        Where the numbers are from.
    price_source
        Where the price is from.
    """

    name: str
    vendor: str
    memory_mib: int | None
    fp64_tflops: float | None = None
    fp32_tflops: float | None = None
    tf32_tflops: float | None = None
    fp16_tflops: float | None = None
    fp8_tflops: float | None = None
    fp4_tflops: float | None = None
    memory_bandwidth_gb_per_s: float | None = None
    nvlink_gb_per_s: float | None = None
    power_w: float | None = None
    list_price_usd: float | None = None
    list_price_year: int | None = None
    source: str = ""
    price_source: str = ""

    def __post_init__(self) -> None:
        where = f'GPU type "{self.name}"'
        if not self.name:
            raise InstanceError("a GPU type has an empty name; name it.")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in _WORDS and value is not None:
                require_positive(value, where, field.name)
        if self.memory_mib is not None:
            require_memory(self.memory_mib, where, "memory_mib")
        if (self.list_price_usd is None) != (self.list_price_year is None):
            raise InstanceError(
                f"{where}: list_price_usd is {self.list_price_usd} and list_price_year is "
                f"{self.list_price_year}; a price needs its year, so give both or neither."
            )

    @property
    def nvlink_per_direction_gb_per_s(self) -> float | None:
        """NVLink bandwidth of the GPU in one direction, GB/s, or None without NVLink."""
        return None if self.nvlink_gb_per_s is None else self.nvlink_gb_per_s / 2


_LAUNCH = "NVIDIA's launch price"
_K80_PRICE = "half of the launch price of the board, USD 5,000, as AnandTech reported it (2014)"
_V100_PRICE = "press and reseller figures of about USD 11,000, version not told apart"
_A100_PRICE = "press figure of roughly USD 10,000 for an A100, version not told apart (CNBC, 2023)"
_HOPPER_PRICE = "press and analyst estimates from USD 25,000 to 40,000; a figure in their midst"
_BLACKWELL_PRICE = "middle of USD 30,000 to 40,000, expected price of a GPU (CNBC, 2024)"
_HALVED = "; rates with sparsity halved"

_TABLE = (
    # One of the two GPUs of the board: schedulers and the driver see two devices.
    GpuType(
        "k80", "NVIDIA", 12 * 1024,
        fp64_tflops=1.455, fp32_tflops=4.365,
        memory_bandwidth_gb_per_s=240, power_w=150,
        list_price_usd=2500, list_price_year=2014, price_source=_K80_PRICE,
        source="NVIDIA Tesla K80 GPU Accelerator data sheet (with GPU Boost; half of the board)",
    ),
    GpuType(
        "p100-pcie-16gb", "NVIDIA", 16 * 1024,
        fp64_tflops=4.7, fp32_tflops=9.3, fp16_tflops=18.7,
        memory_bandwidth_gb_per_s=732, power_w=250,
        source="NVIDIA Tesla P100 GPU Accelerator data sheet (PCIe)",
    ),
    GpuType(
        "p100-sxm-16gb", "NVIDIA", 16 * 1024,
        fp64_tflops=5.3, fp32_tflops=10.6, fp16_tflops=21.2,
        memory_bandwidth_gb_per_s=732, nvlink_gb_per_s=160, power_w=300,
        source="NVIDIA Tesla P100 GPU Accelerator data sheet (SXM2)",
    ),
    GpuType(
        "v100-sxm-16gb", "NVIDIA", 16 * 1024,
        fp64_tflops=7.8, fp32_tflops=15.7, fp16_tflops=125,
        memory_bandwidth_gb_per_s=900, nvlink_gb_per_s=300, power_w=300,
        list_price_usd=11_000, list_price_year=2018, price_source=_V100_PRICE,
        source="NVIDIA V100 Tensor Core GPU data sheet (SXM2)",
    ),
    GpuType(
        "v100-sxm-32gb", "NVIDIA", 32 * 1024,
        fp64_tflops=7.8, fp32_tflops=15.7, fp16_tflops=125,
        memory_bandwidth_gb_per_s=900, nvlink_gb_per_s=300, power_w=300,
        list_price_usd=11_000, list_price_year=2018, price_source=_V100_PRICE,
        source="NVIDIA V100 Tensor Core GPU data sheet (SXM2)",
    ),
    GpuType(
        "v100-pcie-16gb", "NVIDIA", 16 * 1024,
        fp64_tflops=7.0, fp32_tflops=14.0, fp16_tflops=112,
        memory_bandwidth_gb_per_s=900, power_w=250,
        list_price_usd=11_000, list_price_year=2018, price_source=_V100_PRICE,
        source="NVIDIA V100 Tensor Core GPU data sheet (PCIe)",
    ),
    GpuType(
        "t4", "NVIDIA", 16 * 1024,
        fp32_tflops=8.1, fp16_tflops=65,
        memory_bandwidth_gb_per_s=300, power_w=70,
        source="NVIDIA T4 Tensor Core GPU data sheet",
    ),
    GpuType(
        "a10", "NVIDIA", 24 * 1024,
        fp32_tflops=31.2, tf32_tflops=62.5, fp16_tflops=125,
        memory_bandwidth_gb_per_s=600, power_w=150,
        source="NVIDIA A10 Tensor Core GPU data sheet",
    ),
    GpuType(
        "a30", "NVIDIA", 24 * 1024,
        fp64_tflops=5.2, fp32_tflops=10.3, tf32_tflops=82, fp16_tflops=165,
        memory_bandwidth_gb_per_s=933, nvlink_gb_per_s=200, power_w=165,
        source="NVIDIA A30 Tensor Core GPU data sheet",
    ),
    GpuType(
        "a40", "NVIDIA", 48 * 1024,
        fp32_tflops=37.4, tf32_tflops=74.8, fp16_tflops=149.7,
        memory_bandwidth_gb_per_s=696, nvlink_gb_per_s=112.5, power_w=300,
        source="NVIDIA A40 data sheet",
    ),
    GpuType(
        "a100-sxm-40gb", "NVIDIA", 40 * 1024,
        fp64_tflops=9.7, fp32_tflops=19.5, tf32_tflops=156, fp16_tflops=312,
        memory_bandwidth_gb_per_s=1555, nvlink_gb_per_s=600, power_w=400,
        list_price_usd=10_000, list_price_year=2023, price_source=_A100_PRICE,
        source="NVIDIA A100 Tensor Core GPU data sheet (SXM4)",
    ),
    GpuType(
        "a100-sxm-80gb", "NVIDIA", 80 * 1024,
        fp64_tflops=9.7, fp32_tflops=19.5, tf32_tflops=156, fp16_tflops=312,
        memory_bandwidth_gb_per_s=2039, nvlink_gb_per_s=600, power_w=400,
        list_price_usd=10_000, list_price_year=2023, price_source=_A100_PRICE,
        source="NVIDIA A100 Tensor Core GPU data sheet (SXM4)",
    ),
    # NVLink of the PCIe boards: a bridge between two of them.
    GpuType(
        "a100-pcie-40gb", "NVIDIA", 40 * 1024,
        fp64_tflops=9.7, fp32_tflops=19.5, tf32_tflops=156, fp16_tflops=312,
        memory_bandwidth_gb_per_s=1555, nvlink_gb_per_s=600, power_w=250,
        list_price_usd=10_000, list_price_year=2023, price_source=_A100_PRICE,
        source="NVIDIA A100 Tensor Core GPU data sheet (PCIe)",
    ),
    GpuType(
        "a100-pcie-80gb", "NVIDIA", 80 * 1024,
        fp64_tflops=9.7, fp32_tflops=19.5, tf32_tflops=156, fp16_tflops=312,
        memory_bandwidth_gb_per_s=1935, nvlink_gb_per_s=600, power_w=300,
        list_price_usd=10_000, list_price_year=2023, price_source=_A100_PRICE,
        source="NVIDIA A100 Tensor Core GPU data sheet (PCIe)",
    ),
    GpuType(
        "a800-sxm-80gb", "NVIDIA", 80 * 1024,
        fp64_tflops=9.7, fp32_tflops=19.5, tf32_tflops=156, fp16_tflops=312,
        memory_bandwidth_gb_per_s=2039, nvlink_gb_per_s=400, power_w=400,
        source="NVIDIA A800 Tensor Core GPU data sheet (SXM4)",
    ),
    GpuType(
        "l4", "NVIDIA", 24 * 1024,
        fp32_tflops=30.3, tf32_tflops=60, fp16_tflops=121, fp8_tflops=242.5,
        memory_bandwidth_gb_per_s=300, power_w=72,
        source="NVIDIA L4 Tensor Core GPU data sheet" + _HALVED,
    ),
    GpuType(
        "l40s", "NVIDIA", 48 * 1024,
        fp32_tflops=91.6, tf32_tflops=183, fp16_tflops=362, fp8_tflops=733,
        memory_bandwidth_gb_per_s=864, power_w=350,
        source="NVIDIA L40S GPU data sheet",
    ),
    GpuType(
        "h100-sxm-80gb", "NVIDIA", 80 * 1024,
        fp64_tflops=34, fp32_tflops=67, tf32_tflops=494.5, fp16_tflops=989.5, fp8_tflops=1979,
        memory_bandwidth_gb_per_s=3350, nvlink_gb_per_s=900, power_w=700,
        list_price_usd=30_000, list_price_year=2024, price_source=_HOPPER_PRICE,
        source="NVIDIA H100 Tensor Core GPU data sheet (SXM5)" + _HALVED,
    ),
    GpuType(
        "h100-pcie-80gb", "NVIDIA", 80 * 1024,
        fp64_tflops=26, fp32_tflops=51, tf32_tflops=378, fp16_tflops=756.5, fp8_tflops=1513,
        memory_bandwidth_gb_per_s=2000, nvlink_gb_per_s=600, power_w=350,
        list_price_usd=30_000, list_price_year=2024, price_source=_HOPPER_PRICE,
        source="NVIDIA H100 Tensor Core GPU data sheet (PCIe)" + _HALVED,
    ),
    GpuType(
        "h800-sxm-80gb", "NVIDIA", 80 * 1024,
        fp64_tflops=1, fp32_tflops=67, tf32_tflops=494.5, fp16_tflops=989.5, fp8_tflops=1979,
        memory_bandwidth_gb_per_s=3350, nvlink_gb_per_s=400, power_w=700,
        source="NVIDIA H800 Tensor Core GPU data sheet (SXM5)" + _HALVED,
    ),
    GpuType(
        "h200-sxm-141gb", "NVIDIA", 141 * 1024,
        fp64_tflops=34, fp32_tflops=67, tf32_tflops=494.5, fp16_tflops=989.5, fp8_tflops=1979,
        memory_bandwidth_gb_per_s=4800, nvlink_gb_per_s=900, power_w=700,
        list_price_usd=30_000, list_price_year=2024, price_source=_HOPPER_PRICE,
        source="NVIDIA H200 Tensor Core GPU data sheet (SXM5)" + _HALVED,
    ),
    GpuType(
        "b200-sxm-180gb", "NVIDIA", 180 * 1024,
        fp64_tflops=37, fp32_tflops=75, tf32_tflops=1100, fp16_tflops=2250, fp8_tflops=4500,
        fp4_tflops=9000,
        memory_bandwidth_gb_per_s=8000, nvlink_gb_per_s=1800, power_w=1000,
        list_price_usd=35_000, list_price_year=2024, price_source=_BLACKWELL_PRICE,
        source="NVIDIA HGX B200 and DGX B200 data sheets, an eighth of the system" + _HALVED,
    ),
    GpuType(
        "gb200-186gb", "NVIDIA", 186 * 1024,
        fp64_tflops=40, fp32_tflops=80, tf32_tflops=1250, fp16_tflops=2500, fp8_tflops=5000,
        fp4_tflops=10_000,
        memory_bandwidth_gb_per_s=8000, nvlink_gb_per_s=1800, power_w=1200,
        list_price_usd=35_000, list_price_year=2024, price_source=_BLACKWELL_PRICE,
        source="NVIDIA GB200 NVL72 data sheet, one of the two GPUs of a superchip" + _HALVED,
    ),
    GpuType(
        "gtx-1080-ti", "NVIDIA", 11 * 1024,
        fp32_tflops=11.3,
        memory_bandwidth_gb_per_s=484, power_w=250,
        list_price_usd=699, list_price_year=2017, price_source=_LAUNCH,
        source="NVIDIA GeForce GTX 1080 Ti product specifications",
    ),
    GpuType(
        "rtx-2080-ti", "NVIDIA", 11 * 1024,
        fp32_tflops=13.4, fp16_tflops=53.8,
        memory_bandwidth_gb_per_s=616, nvlink_gb_per_s=100, power_w=250,
        list_price_usd=999, list_price_year=2018, price_source=_LAUNCH,
        source="NVIDIA Turing GPU Architecture white paper (RTX 2080 Ti, reference)",
    ),
    GpuType(
        "rtx-4090", "NVIDIA", 24 * 1024,
        fp32_tflops=82.6, tf32_tflops=82.6, fp16_tflops=165.2, fp8_tflops=330.3,
        memory_bandwidth_gb_per_s=1008, power_w=450,
        list_price_usd=1599, list_price_year=2022, price_source=_LAUNCH,
        source="NVIDIA Ada GPU Architecture white paper (RTX 4090)",
    ),
    # A GPU of which nothing is known, for models where only counts matter.
    GpuType("generic", "any", None, source="none: a placeholder without figures"),
)  # fmt: skip

GPU_TYPES: dict[str, GpuType] = {kind.name: kind for kind in _TABLE}
"""The GPU types that alloc knows, by name."""

ALIASES: dict[str, str] = {
    "p100": "p100-pcie-16gb",
    "v100": "v100-sxm-16gb",
    "v100m16": "v100-sxm-16gb",
    "v100m32": "v100-sxm-32gb",
    "a100": "a100-sxm-40gb",
    "a800": "a800-sxm-80gb",
    "h100": "h100-sxm-80gb",
    "h800": "h800-sxm-80gb",
    "h200": "h200-sxm-141gb",
    "b200": "b200-sxm-180gb",
    "gb200": "gb200-186gb",
    "1080ti": "gtx-1080-ti",
    "2080ti": "rtx-2080-ti",
    "4090": "rtx-4090",
}
"""Short names, and the names in traces, for entries of `GPU_TYPES`.

A short name that several versions share means the first version that came in that form factor;
write the full name where memory or form factor matter.
"""


def gpu_type(name: str) -> GpuType:
    """Return the GPU type of that name or alias; case, spaces and underscores do not matter.

    Raises
    ------
    InstanceError
        If there is none; the message suggests names.

    Examples
    --------
    >>> gpu_type("H100").memory_bandwidth_gb_per_s
    3350
    """
    key = "-".join(name.lower().replace("_", " ").split())
    key = ALIASES.get(key, key)
    if key in GPU_TYPES:
        return GPU_TYPES[key]
    raise InstanceError(
        f'GPU type "{name}" is not in the table{_suggest(key)} A GPU that alloc does not know '
        'is of type "generic", or a GpuType of your own.'
    )


def _suggest(key: str) -> str:
    """Return names that begin like `key`, else the nearest name, as the end of a clause."""
    longer = sorted(known for known in GPU_TYPES if key and known.startswith(f"{key}-"))
    if longer:
        return f"; did you mean {_either(longer)}?"
    return nearest(key, (*GPU_TYPES, *ALIASES)) or "."


def _either(names: Iterable[str]) -> str:
    return " or ".join(f'"{name}"' for name in names)
