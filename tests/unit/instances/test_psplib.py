"""Files of PSPLIB, MMLIB and Patterson: small ones of our own, and the published optima."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest
from needs import need_data

import alloc
from alloc.errors import InstanceError
from alloc.instances.psplib import parse_psplib, read_psplib
from alloc.problems.project import Activity, Mode, ProjectProblem, Resource

STARS = "*" * 72
MULTI = f"""{STARS}
file with basedata            : our own
{STARS}
projects                      :  1
jobs (incl. supersource/sink ):  4
RESOURCES
  - renewable                 :  1   R
  - nonrenewable              :  1   N
  - doubly constrained        :  0   D
{STARS}
PRECEDENCE RELATIONS:
jobnr.    #modes  #successors   successors
   1        1          2           2   3
   2        2          1           4
   3        1          1           4
   4        1          0
{STARS}
REQUESTS/DURATIONS:
jobnr. mode duration  R 1  N 1
------------------------------------------------------------------------
  1      1     0       0    0
  2      1     3       2    5
         2     7       1    0
  3      1     4       2    1
  4      1     0       0    0
{STARS}
RESOURCEAVAILABILITIES:
  R 1  N 1
   3    4
{STARS}
"""
DIALECT = MULTI.replace("REQUESTS/DURATIONS:", "REQUESTS/DURATIONS").replace(
    "RESOURCEAVAILABILITIES:", "\n RESOURCE AVAILABILITIES "
)
SINGLE = "5 2\n4 3\n0 0 0 2 2 3\n3 2 1 1 4\n4 4 0 1 5\n2 1 3 1 5\n0 0 0 0\n"


@pytest.mark.parametrize("text", [MULTI, DIALECT, DIALECT.replace("   ", "\t")])
def test_the_dialects_of_psplib_and_mmlib_say_the_same(text):
    assert parse_psplib(text, "p") == ProjectProblem(
        "p",
        (
            Activity("2", (Mode(3.0, {"R1": 2, "N1": 5}), Mode(7.0, {"R1": 1}))),
            Activity("3", (Mode(4.0, {"R1": 2, "N1": 1}),)),
        ),
        (Resource("R1", 3), Resource("N1", 4, False)),
    )
    # The short mode of job 2 takes more than the budget.
    assert alloc.solve(parse_psplib(text)).objective == 7.0


def test_a_file_of_numbers_is_patterson_s_however_its_lines_break():
    problem = parse_psplib(SINGLE)
    assert problem == parse_psplib(" ".join(SINGLE.split()))
    assert [a.predecessors for a in problem.activities] == [(), (), ("2",)]
    assert alloc.solve(problem).objective == 9.0


def test_a_file_is_named_and_unpacked(tmp_path: Path):
    path = tmp_path / "small.mm.gz"
    path.write_bytes(gzip.compress(MULTI.encode()))
    assert read_psplib(path) == parse_psplib(MULTI, "small")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a note", "neither a file of PSPLIB"),
        (SINGLE[:-20], "cut short"),
        ("3", "ends before the numbers of jobs and resources"),
        (SINGLE.replace("1 5\n2", "1 9\n2"), "successor 9, and there are 5"),
        (MULTI[: MULTI.index("REQUESTS")], "no section REQUESTS"),
        (MULTI[: MULTI.index("  3      1     4")], "ends before mode 1 of job 3|before job 3"),
        (MULTI[: MULTI.index("   3    4")], "ends before the capacities"),
        (MULTI.replace("doubly constrained        :  0", "doubly constrained : 1"), "doubly"),
        (MULTI.replace("jobs (incl", "tasks (incl"), "does not say how many jobs"),
        (MULTI.replace("   3        1          1           4", "   5   1   1   4"), "job 5 stands"),
        (MULTI.replace("2     7       1", "2     x       1"), '"x" stands where mode 2 of job 2'),
        (MULTI.replace("  3      1     4", "  3      1     0"), "duration_s is 0"),
        (MULTI.replace("   3    4", "   1    4"), 'activity "3": no mode fits.*are 1'),
    ],
)
def test_a_file_that_is_broken_is_refused_in_a_sentence(text, part):
    with pytest.raises(InstanceError, match=part):
        parse_psplib(text)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(InstanceError, match="cannot be read"):
        read_psplib(tmp_path / "none.sm")


def published(kind: str) -> dict[str, float]:
    """Return the optima that are proved, by the path of the file."""
    with need_data("orlib", kind, "optima.csv").open() as lines:
        return {
            row["instance"]: float(row["best_known_makespan"])
            for row in csv.DictReader(lines)
            if row["proven_optimal"] == "yes"
        }


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", ["j10/j104_1.mm", "j10/j1039_1.mm", "j10/j1040_1.mm"])
def test_instances_on_which_a_solver_was_wrong_are_right(name, seed):
    """CP-SAT 9.12 to 9.15 call 1 or 2 periods more optimal, where modes share their starts."""
    optimum = published("mrcpsp")[name]
    problem = read_psplib(need_data("orlib", "mrcpsp", *name.split("/")))
    result = alloc.solve(problem, limits=alloc.Limits(20, seed=seed))
    assert (result.status, result.objective) == ("optimal", optimum)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["rcpsp", "mrcpsp"])
def test_published_optima_are_kept_to(kind):
    """Every twentieth file: no bound above the published optimum, no value below it."""
    optima = published(kind)
    for name in sorted(n for n in optima if not n.startswith(("J60", "mmlib")))[::20]:
        problem = read_psplib(need_data("orlib", kind, *name.split("/")))
        result = alloc.solve(problem, limits=alloc.Limits(5))
        assert result.certificate.bound <= optima[name] <= result.objective
        if result.status == "optimal":
            assert result.objective == optima[name]
