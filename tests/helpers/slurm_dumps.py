"""Dumps of Slurm of realistic shape: squeue, scontrol and sacctmgr, made here."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

NOW = 1_777_900_000
"""When the dumps were taken, Unix seconds."""


def number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


def slurm_node(name: str, gres: str = "gpu:a100:8(S:0-1)", *, cpus: int = 128,
               memory: int = 1_000_000, used: tuple[int, int, int] = (0, 0, 0),
               state: list[str] | str | None = None, partitions: list[str] | None = None
               ) -> dict[str, Any]:  # fmt: skip
    """A node; `used` are its GPUs, CPUs and MiB that jobs hold."""
    gpus, cores, mib = used
    return {
        "name": name,
        "gres": gres,
        "gres_used": f"{gres.partition('(')[0].rpartition(':')[0]}:{gpus}(IDX:N/A)" if gres else "",
        "cpus": cpus,
        "effective_cpus": cpus,
        "real_memory": memory,
        "specialized_memory": 0,
        "alloc_cpus": cores,
        "alloc_memory": mib,
        "state": state or ["MIXED" if any(used) else "IDLE"],
        "partitions": partitions or ["gpu"],
        "features": [],
    }


def slurm_job(id: int, state: str, nodes: int, gpus: int, *, on: str = "", cpus: int = 16,
              memory: int = 64, account: str = "vision", kind: str = "", **more: Any
              ) -> dict[str, Any]:  # fmt: skip
    """A job with so many GPUs, CPUs and GiB on each of its nodes."""
    gpu = f"gres/gpu={nodes * gpus}"
    typed = f"gres/gpu:{kind}={nodes * gpus},{gpu}" if kind else gpu
    tres = f"cpu={nodes * cpus},mem={nodes * memory}G,node={nodes}" + (f",{typed}" if gpus else "")
    runs = state == "RUNNING"
    return {
        "job_id": id,
        "job_state": [state],
        "account": account,
        "partition": "gpu",
        "submit_time": number(NOW - 9000 + id),
        "start_time": number(NOW - 600 if runs else 0),
        "time_limit": number(120),
        "tres_req_str": tres,
        "tres_alloc_str": tres if runs else "",
        "nodes": on,
        "node_count": number(nodes),
        "state_reason": "None" if runs else "Resources",
        **more,
    }


def save(folder: Path, jobs: list[Any], nodes: list[Any] | None = None) -> dict[str, Path]:
    found = {"queue": folder / "squeue.json", "nodes": folder / "nodes.json"}
    found["queue"].write_text(json.dumps({"last_update": number(NOW), "jobs": jobs}))
    found["nodes"].write_text(json.dumps({"nodes": nodes or []}))
    return found


def large_cluster(num_nodes: int, seed: int) -> tuple[list[Any], list[Any], str]:
    """Jobs, nodes and topology.conf: 16 nodes a leaf, drained nodes, jobs without GPUs."""
    rng = random.Random(seed)
    nodes, jobs = [], []
    for k in range(num_nodes):
        own = rng.choice([0, 0, 2, 4, 8])
        cores = rng.choice([0, 8, 32])  # of a job without GPUs
        drained = rng.random() < 0.03
        name = f"n{k:04}"
        kind = "h100" if k // 16 % 3 else "a100"
        used = (own, cores + 16 * bool(own), 65_536 * bool(own) + 1024 * cores)
        nodes.append(slurm_node(name, f"gpu:{kind}:8(S:0-1)", used=used,
                                state=["MIXED", "DRAIN"] if drained else None))  # fmt: skip
        if own:
            jobs.append(slurm_job(1000 + k, "RUNNING", 1, own, on=name, kind=kind))
        if cores:
            jobs.append(slurm_job(5000 + k, "RUNNING", 1, 0, on=name, cpus=cores, memory=cores))
    for k in range(num_nodes // 20):
        jobs.append(slurm_job(9000 + k, "PENDING", rng.choice([1, 2, 4, 8]), rng.choice([4, 8]),
                              account=rng.choice(["vision", "speech"])))  # fmt: skip
    leaves = -(-num_nodes // 16)
    lines = [f"SwitchName=leaf{i} Nodes=n[{16 * i:04}-{min(16 * i + 15, num_nodes - 1):04}]"
             for i in range(leaves)]  # fmt: skip
    return (
        jobs,
        nodes,
        "\n".join([*lines, f"SwitchName=spine Switches=leaf[0-{leaves - 1}]"]) + "\n",
    )
