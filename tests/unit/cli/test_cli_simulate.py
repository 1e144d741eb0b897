"""`alloc simulate`."""

import json

import pytest


def test_a_simulation_says_what_happened(run, instance_file):
    done = run("simulate", instance_file, "--scheduler", "fifo")
    assert done.exit_code == 0, done.stderr
    for word in ["fifo", "mean JCT (s)", "GPU use (%)", "job-1", "verified"]:
        assert word in done.stdout


def test_json_holds_the_measures(run, instance_file):
    # By hand: completions at 200 s and 400 s.
    done = run("simulate", instance_file, "--scheduler", "fifo", "--json")
    document = json.loads(done.stdout)
    assert document["mean_jct_s"] == pytest.approx(300)
    assert document["makespan_s"] == pytest.approx(400)
    assert document["unfinished"] == []
    assert document["verified"] is True


def test_the_schedule_can_be_kept_and_verified(run, instance_file, tmp_path):
    path = tmp_path / "schedule.json"
    assert run("simulate", instance_file, "--scheduler", "fifo", "-o", path).exit_code == 0
    assert run("verify", instance_file, path).exit_code == 0


def test_a_simulation_cut_short_names_the_unfinished(run, instance_file):
    done = run("simulate", instance_file, "--scheduler", "fifo", "--max-time", 300, "--json")
    document = json.loads(done.stdout)
    assert document["unfinished"] == ["job-1"]
    # Infinite, which JSON has no word for.
    assert document["mean_jct_s"] is None


def test_the_same_seed_gives_the_same_result(run):
    words = ["simulate", "elastic-tiny/04", "--scheduler", "optimus", "--json"]
    words += ["--knowledge", "estimate", "--work-error", "0.5", "--seed", "7"]
    first, second = (json.loads(run(*words).stdout) for _ in range(2))
    assert first["mean_jct_s"] == second["mean_jct_s"]
    assert first["knowledge"] == "estimate"


def test_options_reach_the_policy(run, instance_file):
    done = run("simulate", instance_file, "--scheduler", "fifo", "--option", "skip=true")
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scheduler", "fifo", "--option", "skipp=true"], "skip"),
        (["--scheduler", "fifo", "--knowledge", "all"], "knowledge"),
        (["--scheduler", "srtf", "--knowledge", "none"], "srtf"),
        (["--scheduler", "fifo", "--work-error", -1], "work_error"),
        ([], "--scheduler"),
    ],
)
def test_a_wrong_option_is_exit_2(run, instance_file, arguments, message):
    done = run("simulate", instance_file, *arguments)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_interrupt_keeps_what_happened_until_then(run, instance_file, tmp_path, monkeypatch):
    """Ctrl-C in the second decision: the first job's runs are shown and written, and the code."""
    from alloc.schedulers.fifo import Fifo

    decide, calls = Fifo.decide, []

    def interrupted(self, state):
        calls.append(state.now_s)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return decide(self, state)

    monkeypatch.setattr(Fifo, "decide", interrupted)
    output = tmp_path / "schedule.json"
    done = run("simulate", instance_file, "--scheduler", "fifo", "-o", output)
    assert done.exit_code == 130, done.output
    assert len(calls) == 4
    assert "interrupted at" in done.stderr
    assert "job-0" in done.stdout
    assert output.exists()


def test_an_error_of_estimates_needs_estimates(run, instance_file):
    done = run("simulate", instance_file, "--scheduler", "srtf", "--work-error", 0.3)
    assert done.exit_code == 2
    assert "add --knowledge estimate" in done.stderr
