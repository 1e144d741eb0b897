"""`alloc plan init`: from a history and a price sheet to a plan whose goals hold in later weeks."""

import json
import random

import pytest

from alloc.cli.exit_code import ExitCode
from alloc.documents.reading import load
from alloc.instances.stored_planning import load_stored_planning
from alloc.problems.right_sizing import PlanningProblem, ServiceGoal

WEEK_H = 168
PRICES = "host,gpu_type,gpus,purchase EUR,on-demand EUR\nbox,a100,8,30000,14\n"


def jobs(weeks: float, *, hours: float = 4.0, gap_h: float = 2.0, extra: str = "") -> str:
    """Return a table of jobs that come every so many hours, on 1, 2 and 8 GPUs in turn."""
    draw = random.Random(0)
    rows = ["id,arrival,duration_h,gpus,tenant"]
    for k in range(int(weeks * WEEK_H / gap_h) + 1):
        gpus, tenant = (1, 2, 8)[k % 3], ("vision", "speech")[k % 2]
        run = hours * draw.uniform(0.5, 1.5) / (8 if gpus == 1 else 1)
        rows.append(f"j{k},{k * gap_h * 3600:.0f},{run:.3f},{gpus},{tenant}")
    return "\n".join(rows) + "\n" + extra


@pytest.fixture
def files(tmp_path):
    """Write a history of six weeks and a price sheet, and return where they are."""
    history, prices = tmp_path / "jobs.csv", tmp_path / "prices.csv"
    history.write_text(jobs(6))
    prices.write_text(PRICES)
    return history, prices, tmp_path / "plan.yaml"


@pytest.fixture
def init(run, files):
    """Run `alloc plan init` on the files, with more options."""

    def init(*options, history=files[0], prices=files[1], output=files[2]):
        return run("plan", "init", history, "--prices", prices, "-o", output, "-q", *options)

    return init


def test_a_template_is_a_problem_with_what_there_is_to_decide(init, files):
    made = init("--quarters", 2, "--goal", "8-gpu*=wait 2h 90%", "--growth", 0.1)
    assert made.exit_code == 0, made.stderr
    text = files[2].read_text()
    problem = load(files[2])
    assert isinstance(problem, PlanningProblem)
    assert problem.currency == "EUR"
    assert problem.owned == ()
    assert problem.budget is None
    assert [offer.name for offer in problem.offers] == ["buy box", "rent box"]
    goals = {one.name: one.goal for one in problem.classes}
    gang = next(name for name in goals if name.startswith("8-gpu"))
    assert goals[gang] == ServiceGoal("wait", 2.0, 0.9)
    assert all(goals.values())
    for words in ("DECIDE which hosts you own", "6 weeks", "a week", "% of the GPU time"):
        assert words in text
    for scenario in problem.scenarios:
        assert all(later > first for first, later in scenario.arrivals.values())


def test_nothing_of_a_sample_is_in_it(init, files):
    assert init().exit_code == 0
    text = files[2].read_text()
    for name in ("planning-small", "planning-tiny"):
        sample = load_stored_planning(name)
        assert not any(offer.name in text for offer in sample.offers)
        assert not any(site.name in text for site in sample.sites)


def test_the_load_of_the_template_is_that_of_the_history(init, files):
    assert init("--classes", 2).exit_code == 0
    problem = load(files[2])
    assert len(problem.classes) <= 2
    planned = sum(
        scenario.probability * scenario.arrivals[one.name][0] * one.options[0].gpu_hours
        for scenario in problem.scenarios
        for one in problem.classes
    )
    rows = [line.split(",") for line in files[0].read_text().splitlines()[1:]]
    used = sum(float(hours) * int(gpus) for _, _, hours, gpus, _ in rows) / (6 * WEEK_H)
    assert planned == pytest.approx(used, rel=0.05)


def test_a_plan_holds_in_the_weeks_that_it_was_not_made_from(init, run, files, tmp_path):
    later, answer = tmp_path / "later.json", tmp_path / "answer.json"
    made = init("--quarters", 1, "--hold-out", 2, "--held-out-output", later, "--keep", 2)
    assert made.exit_code == 0, made.stderr
    done = run(
        *("plan", files[2], "--replay", "--replay-jobs", 60, "--iterations", 2, "-q"),
        *("--held-out", later, "-o", answer),
    )
    assert done.exit_code == 0, done.stdout
    first, second = done.stdout.splitlines()[:2]
    assert "EUR over 1 quarter, proved to be" in first
    assert "; the goals of all 3 classes hold in the replay." in first
    assert "Later weeks: in the 2 weeks that followed, 3 of 3 classes keep their goals" in second
    found = json.loads(answer.read_text())["later_weeks"]
    assert found["holds"]
    assert sum(one["jobs"] for one in found["classes"]) == pytest.approx(2 * WEEK_H / 2, abs=2)


def test_weeks_with_far_more_work_than_planned_for_miss_their_goals(init, run, files, tmp_path):
    """A replay of the forecast cannot see that the forecast is wrong."""
    later = tmp_path / "later.json"
    rows = jobs(6).splitlines()
    rush = [f"r{k},{(4 + 2 * k / 600) * WEEK_H * 3600:.0f},20,8,vision" for k in range(601)]
    files[0].write_text("\n".join([*rows, *rush]) + "\n")
    made = init(
        *("--quarters", 1, "--hold-out", 2, "--held-out-output", later, "--keep", 2),
        *("--goal", "*=wait 1h 90%"),
    )
    assert made.exit_code == 0, made.stderr
    done = run(
        *("plan", files[2], "--replay", "--replay-jobs", 60, "--iterations", 2, "-q"),
        *("--held-out", later),
    )
    assert done.exit_code == ExitCode.MISSED
    assert "missed: " in done.stderr
    assert "601 jobs like none before" in done.stderr


def test_later_weeks_need_a_replay(init, run, files, tmp_path):
    later = tmp_path / "later.json"
    assert init("--hold-out", 2, "--held-out-output", later).exit_code == 0
    done = run("plan", files[2], "--held-out", later, "-q")
    assert done.exit_code == 2
    assert "add --replay" in done.stderr


def test_later_weeks_of_another_problem_are_refused(init, run, files, tmp_path):
    later = tmp_path / "later.json"
    assert init("--hold-out", 2, "--held-out-output", later).exit_code == 0
    done = run(
        *("plan", "planning-tiny", "--replay", "--replay-jobs", 20, "--iterations", 1, "-q"),
        *("--held-out", later),
    )
    assert done.exit_code == 2
    assert "which the problem has not" in done.stderr


def test_a_file_named_init_is_planned_by_its_path(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    load_stored_planning("planning-tiny/03").to_json("init")
    assert run("plan", "./init", "-q", "--time-limit", 10).exit_code == 0


def test_an_instance_is_a_history_too(run, init, files, tmp_path):
    made = tmp_path / "trace.json"
    assert run("instances", "import", "table", files[0], "-o", made, "-q").exit_code == 0
    assert init(history=made).exit_code == 0
    by_table = tmp_path / "other.yaml"
    assert init(output=by_table).exit_code == 0
    assert load(files[2]).scenarios == load(by_table).scenarios


# What is wrong: of the history, the sheet and the options; and the words of the one sentence.
WRONG = {
    "three jobs": (jobs(3, gap_h=252.0), PRICES, (), "has 3 jobs to forecast from"),
    "two days": (jobs(0.3, gap_h=1.0), PRICES, (), "at least one whole week"),
    "no jobs": ("id,arrival,duration,gpus\n", PRICES, (), "holds no job"),
    "no GPUs": ("id,arrival,duration\nx,1,2\n", PRICES, (), "no column looks like the gpus"),
    "long jobs": (jobs(6, hours=5000.0), PRICES, ("--quarters", 1), "plan 3 quarters or more"),
    "hold out all": (
        jobs(6),
        PRICES,
        ("--hold-out", 6, "--held-out-output", "later.json"),
        "hold out at most 5",
    ),
    "hold out alone": (jobs(6), PRICES, ("--hold-out", 2), "go together"),
    "two types": (jobs(6), PRICES + "c,h100,8,1,2\n", (), "nothing says how fast a100, h100 is"),
    "speed of nothing": (jobs(6), PRICES, ("--speed", "b200=3"), 'no GPU of type "b200"'),
    "speed 0": (jobs(6), PRICES, ("--speed", "a100=0"), "must be more than 0"),
    "speed fast": (jobs(6), PRICES, ("--speed", "a100=fast"), '"fast" is not a number'),
    "mixed currencies": (jobs(6), PRICES.replace("demand EUR", "demand USD"), (), "convert"),
    "another currency": (jobs(6), PRICES, ("--currency", "USD"), "convert the prices"),
    "negative price": (jobs(6), PRICES.replace("30000", "-3"), (), "a price is above 0"),
    "missing price": (jobs(6), PRICES.replace("30000,14", ","), (), "has no price"),
    "doubled offer": (jobs(6), PRICES + "box,a100,8,4,5\n", (), "on line 2 too"),
    "unknown column": (jobs(6), PRICES.replace("gpu_type", "colour"), (), '"colour" is nothing'),
    "no sheet": (jobs(6), None, (), "there is no such file"),
    "goal of nobody": (jobs(6), PRICES, ("--goal", "64-gpu*=none"), "fits no class"),
    "goal in no words": (jobs(6), PRICES, ("--goal", "*=soon"), '"soon" is not a goal'),
    "goal without class": (jobs(6), PRICES, ("--goal", "soon"), "write CLASS=GOAL"),
    "goal that nothing meets": (
        jobs(6),
        PRICES,
        ("--goal", "*=jct 0.1h 95%"),
        "give a longer goal or a faster option",
    ),
    "goal of no wait": (jobs(6), PRICES, ("--goal", "*=wait 0h mean"), "leaves no time to wait"),
    "shrinks to nothing": (jobs(6), PRICES, ("--growth", -1), "1 + growth"),
    "too many quarters": (jobs(6), PRICES, ("--quarters", 100), "plan at most 80"),
    "one class for two tenants": (
        jobs(6),
        PRICES,
        ("--by-tenant", "--classes", 1),
        "make 2 classes",
    ),
    "unknown reader": (jobs(6), PRICES, ("--reader", "excel"), "unknown kind of trace"),
    "unknown option": (jobs(6), PRICES, ("-O", "colour=red"), 'has no option "colour"'),
    "unknown job column": (jobs(6), PRICES, ("--map", "gpus=cards"), 'no column "cards"'),
    "unknown price column": (jobs(6), PRICES, ("--price-map", "host=rig"), 'no column "rig"'),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_one_sentence_with_the_cure(init, files, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    history, prices, options, words = WRONG[name]
    files[0].write_text(history)
    if prices is None:
        files[1].unlink()
    else:
        files[1].write_text(prices)
    done = init(*options)
    assert done.exit_code == 2, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(said) == 1
    assert words in said[0]
    assert not files[2].exists()


@pytest.mark.parametrize("name", ["plan", "plan.json", "plan.yaml.txt"])
def test_a_template_has_a_name_by_which_it_is_read_as_yaml(init, tmp_path, name):
    done = init(output=tmp_path / name)
    assert done.exit_code == 2
    assert "let it end in .yaml" in done.stderr


def test_decisions_are_never_written_over(init, files):
    assert init().exit_code == 0
    before = files[2].read_text()
    done = init("--quarters", 8)
    assert done.exit_code == 2
    assert "may hold decisions" in done.stderr
    assert files[2].read_text() == before


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"price": 30000', '"price": "cheap"', 'offer "buy box": price is "cheap"'),
        ('"price": 30000', '"prize": 30000', 'did you mean "price"'),
        ("budget: null", "budget: -1", "budget is -1"),
        ("owned: []", "owned: [{offer: buy bx, site: site, count: 1, quarters_left: 2}]", "buy bx"),
        ("num_quarters: 4", "num_quarters: 4\nnum_quarters: 3", "is named twice"),
        ("owned: []", "owned: [", "is not YAML"),
    ],
)
def test_a_slip_in_the_template_is_one_sentence(init, run, files, old, new, words):
    assert init().exit_code == 0
    text = files[2].read_text()
    assert old in text
    files[2].write_text(text.replace(old, new, 1))
    done = run("plan", files[2], "-q")
    assert done.exit_code == 2
    assert words in done.stderr
    assert str(files[2]) in done.stderr
