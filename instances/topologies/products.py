"""Product names: from what drivers and labels call a GPU to alloc's name of its type.

A driver says "NVIDIA H100 80GB HBM3", a Kubernetes label "NVIDIA-H100-80GB-HBM3-SHARED", a trace
"H100". What the table of GPU types lacks keeps its own name in lower case.
"""

from __future__ import annotations

import re

from alloc.errors import InstanceError
from alloc.topology.gpu_types import GPU_TYPES, gpu_type
from alloc.topology.machines import PCIE_3_X16_GB_PER_S, PCIE_4_X16_GB_PER_S, PCIE_5_X16_GB_PER_S

# The vendor's ornaments, and what the device plugin appends: a GPU that several pods share.
_ORNAMENTS = re.compile(r"^(nvidia|tesla|geforce|amd)(-|$)|(^|-)shared$")
_SIZE = re.compile(r"\d+gb$")
_MIG = re.compile(r"-mig-\d+g\.\d+gb(?:\.me)?$")

# Whole names without ornaments. Memory named HBM3 tells the SXM board of an H100 from its PCIe
# board, which has HBM2e and says "PCIe".
_PRODUCTS = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"p100-sxm2(-16gb)?", "p100-sxm-16gb"),
        (r"p100-pcie(-16gb)?", "p100-pcie-16gb"),
        (r"v100-sxm[23]-32gb(-\w+)?", "v100-sxm-32gb"),
        (r"v100-sxm2(-16gb)?(-\w+)?", "v100-sxm-16gb"),
        (r"v100-pcie-16gb", "v100-pcie-16gb"),
        (r"a100-(sxm4?-)?80gb", "a100-sxm-80gb"),
        (r"a100-sxm4?-40gb", "a100-sxm-40gb"),
        (r"a100-(80gb-pcie|pcie-80gb)", "a100-pcie-80gb"),
        (r"a100-(40gb-pcie|pcie-40gb)", "a100-pcie-40gb"),
        (r"a800-sxm4?-80gb", "a800-sxm-80gb"),
        (r"h100-(80gb-hbm3|sxm5?(-80gb)?|(mega-)?80gb)", "h100-sxm-80gb"),
        (r"h100-(pcie(-80gb)?|80gb-pcie)", "h100-pcie-80gb"),
        (r"h800-sxm5?(-80gb)?", "h800-sxm-80gb"),
        (r"h200-(141gb(-hbm3e)?|sxm5?(-141gb)?)", "h200-sxm-141gb"),
        (r"b200-(180gb-hbm3e|sxm.*)", "b200-sxm-180gb"),
        (r"gtx-1080-ti", "gtx-1080-ti"),
        (r"rtx-2080-ti", "rtx-2080-ti"),
        (r"rtx-4090", "rtx-4090"),
    )
)

# One NVLink in one direction, GB/s, by generation; the data sheets print all links together.
_NVLINK_GB_PER_S = {"p100": 20.0, "a40": 14.0625, "b200": 50.0, "gb200": 50.0}
_USUAL_NVLINK_GB_PER_S = 25.0
"""Of the generations between: V100, A100 and H100 have links of the same speed."""

# A driver shows a few per cent less memory than the data sheet.
_DRIVERS_SHARE = 0.15

_PCIE_GB_PER_S = {
    **dict.fromkeys(
        ("k80", "p100", "v100", "t4", "gtx-1080-ti", "rtx-2080-ti"), PCIE_3_X16_GB_PER_S
    ),
    **dict.fromkeys(("h100", "h800", "h200", "b200", "gb200"), PCIE_5_X16_GB_PER_S),
}


def type_of_product(product: str, memory_mib: int | None = None) -> str:
    """Return the name of the GPU type that a product name means.

    Parameters
    ----------
    product
        What a driver, a label or a person calls the GPU.
    memory_mib
        Its memory, MiB, if known: it tells versions apart that the product name does not.

    Returns
    -------
    str
        A name in `alloc.topology.GPU_TYPES` where the product is known; else the product in lower
        case with hyphens. A MIG slice keeps its profile: ``"a100-sxm-40gb-mig-1g.5gb"``.

    Raises
    ------
    InstanceError
        If nothing is left of the name.

    Examples
    --------
    >>> type_of_product("NVIDIA H100 80GB HBM3"), type_of_product("Tesla-T4-SHARED")
    ('h100-sxm-80gb', 't4')
    """
    plain = "-".join(product.lower().replace("_", " ").replace("-", " ").split())
    stripped = _ORNAMENTS.sub("", plain)
    while stripped != plain:
        plain, stripped = stripped, _ORNAMENTS.sub("", stripped)
    mig = _MIG.search(plain)
    profile = mig.group() if mig else ""
    plain = plain.removesuffix(profile)
    if not plain:
        raise InstanceError(
            f'"{product}" names no GPU; give a product name such as "NVIDIA-H100-80GB-HBM3".'
        )
    found = next((name for pattern, name in _PRODUCTS if pattern.fullmatch(plain)), None)
    if found is None:
        try:
            found = gpu_type(plain).name
        except InstanceError:
            return plain + profile
    return found + profile if profile else _with_memory(found, memory_mib)


def is_mig_slice(gpu: str) -> bool:
    """Return whether a name that `type_of_product` gave is a slice of a GPU, not a whole one."""
    return _MIG.search(gpu) is not None


def _with_memory(name: str, memory_mib: int | None) -> str:
    """Return the version of a type that has that memory, or the type itself."""
    stem = _SIZE.sub("", name)
    versions = (name, *(known for known in GPU_TYPES if _SIZE.sub("", known) == stem))
    if memory_mib is None:
        return name
    return next((known for known in versions if _has_memory(known, memory_mib)), name)


def _has_memory(name: str, memory_mib: int) -> bool:
    memory = GPU_TYPES[name].memory_mib
    return memory is not None and abs(memory_mib / memory - 1) < _DRIVERS_SHARE


def nvlink_gb_per_s(gpu: str) -> float | None:
    """Return the rate of one NVLink of a GPU type in one direction, GB/s.

    None where the type has no NVLink or is not in the table.
    """
    kind = GPU_TYPES.get(gpu)
    if kind is None or kind.nvlink_gb_per_s is None:
        return None
    return _NVLINK_GB_PER_S.get(gpu.partition("-")[0], _USUAL_NVLINK_GB_PER_S)


def num_nvlinks(gpu: str) -> int | None:
    """Return how many NVLinks a GPU of that type has, or None if unknown."""
    one, kind = nvlink_gb_per_s(gpu), GPU_TYPES.get(gpu)
    if one is None or kind is None or kind.nvlink_per_direction_gb_per_s is None:
        return None
    return round(kind.nvlink_per_direction_gb_per_s / one)


def pcie_gb_per_s(gpu: str) -> float:
    """Return what 16 lanes of the PCIe generation of a GPU type carry in one direction, GB/s.

    PCIe 4.0 where the type is not known.
    """
    for stem in (gpu, gpu.partition("-")[0]):
        if stem in _PCIE_GB_PER_S:
            return _PCIE_GB_PER_S[stem]
    return PCIE_4_X16_GB_PER_S
