"""Published projects: how many are proved in the time, and is every answer the published one?

``python -m benchmarks.psplib --kinds J30,j10,j20 --seconds 20 --every 1``
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import alloc
from alloc.instances.psplib import read_psplib
from benchmarks.data import data_folder

KINDS = {"J30": "rcpsp", "J60": "rcpsp", "j10": "mrcpsp", "j20": "mrcpsp", "mmlib": "mrcpsp"}
"""Sets of instances, and the folder that each is in."""


def published(folder: Path) -> dict[str, tuple[float, bool]]:
    """Return the best known makespan of each instance, and whether it is proved."""
    with (folder / "optima.csv").open() as lines:
        return {
            row["instance"]: (float(row["best_known_makespan"]), row["proven_optimal"] == "yes")
            for row in csv.DictReader(lines)
            if row["best_known_makespan"]
        }


def is_of(name: str, kind: str) -> bool:
    """Return whether an instance is of a set."""
    return name.startswith((f"{kind}_", f"{kind}/"))


def main() -> None:
    """Print a row for each set, and a line for each false answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", default="J30,j10,j20,mmlib", help="sets, with commas")
    parser.add_argument("--seconds", type=float, default=20.0, help="limit of each solve")
    parser.add_argument("--every", type=int, default=1, help="every so many files")
    chosen = parser.parse_args()
    print("set     files  proved  false  mean gap %  worst gap %  mean CPU s  worst CPU s")
    for kind in chosen.kinds.split(","):
        folder = data_folder("orlib") / KINDS[kind]
        best = published(folder)
        names = sorted(name for name in best if is_of(name, kind))[:: chosen.every]
        proved = false = 0
        gaps, times = [], []
        for name in names:
            path = folder / name
            began = time.process_time()
            problem = read_psplib(path if path.exists() else path.with_name(path.name + ".gz"))
            result = alloc.solve(problem, limits=alloc.Limits(chosen.seconds))
            times.append(time.process_time() - began)
            value, bound = result.objective, result.certificate.bound
            known, is_proved = best[name]
            proved += result.status == "optimal"
            wrong = bound > known + 1e-6 or (is_proved and (value is None or value < known - 1e-6))
            if wrong:
                false += 1
                print(f"FALSE: {name}: {value} and bound {bound}, published {known}")
            gaps.append(1.0 if value is None else (value - bound) / value)
        print(
            f"{kind:7} {len(names):5}  {proved:6}  {false:5}  {100 * sum(gaps) / len(gaps):10.2f}"
            f"  {100 * max(gaps):11.2f}  {sum(times) / len(times):10.2f}  {max(times):11.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
