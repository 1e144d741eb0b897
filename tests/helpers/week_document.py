"""The document of a small instance that is right, to be made wrong."""

from __future__ import annotations

from typing import Any

WORKER = {"role": "worker", "count": 1, "gpu_milli": 1000}
INSTANCE: dict[str, Any] = {
    "schema_version": 1,
    "kind": "instance",
    "name": "week",
    "topology": {
        "name": "lab",
        "host_types": [
            {"name": "dgx", "num_gpus": 4, "gpu_type": "v100", "cpu_milli": 64000,
             "memory_mib": 100000}
        ],
        "levels": ["leaf"],
        "domains": [{"id": "leaf-0", "level": "leaf"}],
        "hosts": [{"id": "host-0", "type": "dgx", "domain": "leaf-0"}],
    },
    "configuration_sets": {"resnet": [{"tasks": [WORKER], "rate": 2}]},
    "tenants": [{"name": "red", "gpu_quota_milli": 2000}],
    "jobs": [
        {"id": "train-17", "arrival_s": 0, "work": 10, "configurations": "resnet"},
        {"id": "eval-3", "arrival_s": 5, "work": 10,
         "configurations": [{"tasks": [WORKER], "rate": 1}]},
    ],
}  # fmt: skip
