"""`alloc ranks`: what it prints, its document, and its sentences."""

import json

import pytest

RACKS = "host,pod,rack\na0,p0,r0\na1,p0,r0\nb0,p0,r1\nb1,p0,r1\n"


@pytest.fixture
def racks(tmp_path):
    path = tmp_path / "racks.csv"
    path.write_text(RACKS)
    return path


def ranks(run, racks, *more):
    return run("ranks", racks, "--host-type", "dgx-h100", *more)


def test_the_answer_stands_beside_the_naive_order(run, racks):
    done = ranks(run, racks, "--tensor", 8, "--data", 2, "--hosts", "a0,b0", "--data-hidden", 1)
    assert done.exit_code == 0, done.output
    assert "optimal" in done.stdout
    assert "naive order" in done.stdout
    assert "a0: 0 1 2 3 4 5 6 7" in done.stdout
    assert "states no links between hosts" in done.stderr


def test_json_is_one_document_with_every_rank(run, racks, tmp_path):
    target = tmp_path / "ranks.json"
    done = ranks(
        run,
        racks,
        *("--tensor", 4, "--pipeline", 2, "--data", 4, "--micro-batches", 4),
        *("--bandwidth", "pod=12.5", "--latency", "rack=4e-6", "--json", "-o", target),
    )
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document == json.loads(target.read_text())
    assert len(set(document["gpus"])) == document["ranks"] == 32
    assert document["status"] == "optimal"
    assert document["bound"] <= document["objective"] <= document["naive"]["time"]["step_s"]
    assert document["objective"] == document["time"]["step_s"]
    levels = {row["level"]: row for row in document["fabric"]["levels"]}
    assert levels["pod"]["bandwidth_gb_per_s"] == 12.5
    assert levels["rack"]["latency_s"] == 4e-6
    assert "no links" not in done.stderr


def test_gpus_wired_pair_by_pair_are_mapped_by_their_traffic(run, tmp_path):
    """The matrix of nvidia-smi topo -m, as users have it: two pairs, joined over PCIe."""
    path = tmp_path / "topo.txt"
    path.write_text(
        "\tGPU0\tGPU1\tGPU2\tGPU3\n"
        "GPU0\t X \tNV1\tNV2\tPHB\n"
        "GPU1\tNV1\t X \tPHB\tNV2\n"
        "GPU2\tNV2\tPHB\t X \tNV1\n"
        "GPU3\tPHB\tNV2\tNV1\t X \n"
    )
    matrix = ("--format", "nvidia-smi", "-O", "gpu_type=v100", "--tensor", 4)
    done = run("ranks", path, *matrix, "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["objective_name"] == "transfer"
    assert document["fabric"] == {"kind": "graph"}
    assert document["status"] == "optimal"
    ring = [int(gpu[-1]) for gpu in document["gpus"]]
    edges = {frozenset(pair) for pair in zip(ring, ring[1:] + ring[:1], strict=True)}
    assert frozenset((0, 3)) not in edges
    assert frozenset((1, 2)) not in edges
    shown = run("ranks", path, *matrix)
    assert "pairs of GPUs" in shown.stdout


def test_a_large_mapping_is_shortened_for_people_only(run, racks):
    done = ranks(run, racks, "--data", 32)
    assert "and 2 more tensor groups" in done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tensor", 64], "the job has 64 ranks and its placement 32 GPUs"),
        (["--hosts", "a0,c7"], 'has no host "c7"'),
        (["--hosts", "a0", "--gpus", "a0/gpu0"], "--hosts and --gpus are both given"),
        (["--gpus", "a0/gpu0, a0/gpu9", "--data", 2], 'host "a0" has no GPU "gpu9"'),
        (["--bandwidth", "pod"], "write LEVEL=NUMBER"),
        (["--bandwidth", "pot=3"], 'did you mean "pod"'),
        (["--data", 4, "--expert", 3], "expert degree 3 does not divide"),
        (["--pipeline", 5, "--layers", 32], "32 layers do not make 5 equal stages"),
        (["--data-hidden", 1.5], "data_hidden is 1.5; it is a share"),
        (["--objective", "stp"], 'did you mean "step"'),
        (["--algorithm", "rng"], 'did you mean "ring"'),
    ],
)
def test_what_is_wrong_is_one_sentence_and_code_2(run, racks, options, said):
    done = ranks(run, racks, *options)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())
    assert done.stdout == ""
