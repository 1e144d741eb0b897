"""Export: the ONNX file says what the PyTorch module says, to 1e-5, for any number of jobs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from needs import need_torch
from policy_files import SPEC, card

from alloc.errors import BackendUnavailableError, CertificateError, UnsupportedFeatureError
from alloc.learning import assert_parity, export_policy
from alloc.schedulers.learned import FeatureSpec, read_policy
from alloc.schedulers.learned.kinds import feature_spec

pytestmark = need_torch()

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

WINDOW = feature_spec("dl2-window/1", window=20)


@pytest.fixture(autouse=True)
def same_weights() -> None:
    torch.manual_seed(20261121)


class Dl2(nn.Module):
    """DL2's network: dense layers with ReLU, then batch norm that stays a scale and a shift."""

    def __init__(self, width: int = 80) -> None:
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(120, width), nn.ReLU(), nn.Linear(width, width))
        self.scale = nn.Parameter(torch.rand(width) + 0.5)
        self.shift = nn.Parameter(torch.randn(width))
        self.norm = nn.BatchNorm1d(width)
        self.out = nn.Linear(width, 61)

    def forward(self, window: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.hidden(window.flatten(1))) * self.scale + self.shift
        return self.out(self.norm(hidden))


class Attention(nn.Module):
    """A set of jobs of any number: attention, pooled context, a residual, a priority each."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.inner = nn.Linear(8, width)
        self.attend = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.layer = nn.TransformerEncoderLayer(
            width, 4, 64, dropout=0.1, batch_first=True, norm_first=True, activation="gelu"
        )
        self.seeds = nn.Parameter(torch.randn(4, width))
        self.out = nn.Linear(2 * width, 1)

    def forward(self, jobs: torch.Tensor) -> torch.Tensor:
        rows = self.inner(jobs)[None]
        mixed, _ = self.attend(rows, rows, rows, need_weights=False)
        rows = self.layer(self.norm(rows + mixed))
        pooled = F.scaled_dot_product_attention(self.seeds[None], rows, rows).mean(dim=1)
        context = pooled.unsqueeze(1).expand(-1, rows.shape[1], -1)
        return self.out(torch.cat([rows, context], dim=-1))[0, :, 0]


class Odds(nn.Module):
    """The other operators of the tables, each at least once."""

    low: torch.Tensor
    first: Any

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Dropout(0.5), nn.Tanh())
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.activations = nn.ModuleList(
            [nn.ReLU(), nn.Sigmoid(), nn.LeakyReLU(0.2), nn.ELU(), nn.SiLU(), nn.Identity()]
        )
        self.register_buffer("low", torch.tensor(-1e9))

    def forward(self, jobs: torch.Tensor) -> torch.Tensor:
        x = self.first(jobs)
        for activation in self.activations:
            x = 0.5 * (x + activation(x))
        x = self.encoder(x.unsqueeze(0)).squeeze(0)
        widest = x.amax(dim=0, keepdim=True) / (1 + x.abs().sum(dim=-1, keepdim=True))
        x = F.layer_norm(x, (8,)) - widest
        heads = x.reshape(x.shape[0], 2, -1).transpose(0, 1).permute(1, 0, 2).contiguous()
        scores = torch.matmul(heads, heads.transpose(-1, -2)).flatten(1)
        lifted = torch.stack([x[:, 0], x[..., -1], x[:, 1:3].mean(dim=1)], dim=1)
        masked = torch.where(lifted > 0, lifted, self.low).masked_fill(lifted <= 0, 0.0)
        soft = F.softmax(lifted, dim=-1) + F.log_softmax(lifted, dim=-1).exp()
        size = x.view(x.size(0) * 2, -1).reshape(x.shape)
        total = masked.sum(dim=1) + soft[:, 0] - soft[:, 1] ** 2.0 + scores.amin(dim=1)
        bounded = torch.clamp(total, min=-5.0, max=5.0) + (1 + torch.maximum(total, -total)).sqrt()
        positive = F.relu((lifted >= 0).float()[:, 0]) * (x.sum() * 0.01 + x.mean().detach())
        return bounded + F.linear(size, self.first[0].weight, self.first[0].bias)[:, 0] + positive


@pytest.mark.parametrize(
    ("module", "spec"),
    [(Dl2, WINDOW), (Attention, SPEC), (Odds, SPEC)],
    ids=["multi-layer perceptron", "attention", "all operators"],
)
def test_the_file_says_what_the_module_says(
    tmp_path: Path, module: type[nn.Module], spec: FeatureSpec
) -> None:
    """Within 1e-5 for any number of jobs, also more than any seen before."""
    network = module()
    with torch.no_grad():  # away from the statistics of a fresh batch norm
        for name, buffer in network.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                buffer.add_(torch.rand_like(buffer))
    path = tmp_path / "p.onnx"
    written = export_policy(network, spec, card(), path)
    assert read_policy(path) == written
    rng = np.random.default_rng(3)
    shapes = [
        [n if isinstance(axis, str) else axis for axis in spec.inputs[0].shape] for n in (1, 3, 200)
    ]
    samples = [[3 * rng.standard_normal(shape).astype(np.float32)] for shape in shapes]
    assert 0.0 <= assert_parity(network, written, samples) <= 1e-5


def test_a_module_is_left_as_it_was(tmp_path: Path) -> None:
    """Training goes on after a checkpoint was exported; dropout and batch norm must come back."""
    network = Attention().train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    export_policy(network, SPEC, card(), tmp_path / "p.onnx")
    assert network.training
    assert network.layer.training
    assert all(torch.equal(before[k], value) for k, value in network.state_dict().items())


def test_the_same_weights_are_the_same_file(tmp_path: Path) -> None:
    """A training that is resumed to the same result gives the same file."""
    network = Attention()
    first, second = (export_policy(network, SPEC, card(), tmp_path / f"{k}.onnx") for k in "ab")
    assert first.sha256 == second.sha256


def test_a_difference_is_found(tmp_path: Path) -> None:
    """Parity is checked against the module, so another module's file does not pass."""
    policy = export_policy(Attention(), SPEC, card(), tmp_path / "p.onnx")
    sample = [np.ones((3, 8), np.float32)]
    with pytest.raises(
        CertificateError, match=r"policy short-first: .* differ by .* 1e-05 is allow"
    ):
        assert_parity(Attention(), policy, [sample])
    with pytest.raises(CertificateError, match="were compared on no sample"):
        assert_parity(Attention(), policy, [])


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), -float("inf")])
def test_a_module_that_answers_nan_is_never_the_file(tmp_path: Path, broken: float) -> None:
    """NaN is larger than no tolerance, so it must not pass as no difference."""
    network = Attention()
    policy = export_policy(network, SPEC, card(), tmp_path / "p.onnx")

    class Broken(nn.Module):
        def forward(self, jobs: torch.Tensor) -> torch.Tensor:
            return network(jobs) + broken

    with pytest.raises(CertificateError, match="differ by inf"):
        assert_parity(Broken(), policy, [[np.ones((3, 8), np.float32)]])


class Sorted(nn.Module):
    def forward(self, jobs: torch.Tensor) -> torch.Tensor:
        return torch.sort(jobs[:, 0]).values


class Branching(nn.Module):
    def forward(self, jobs: torch.Tensor) -> torch.Tensor:
        return jobs[:, 0] if jobs.sum() > 0 else -jobs[:, 0]


class Grouped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(8, 1, 1)

    def forward(self, jobs: torch.Tensor) -> torch.Tensor:
        return self.conv(jobs.T)[0]


class Masked(nn.Module):
    def forward(self, jobs: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(jobs, jobs, jobs, is_causal=True)[:, 0]


class TwoAnswers(nn.Module):
    def forward(self, jobs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return jobs[:, 0], jobs[:, 1]


class TwoInputs(nn.Module):
    def forward(self, jobs: torch.Tensor, cluster: torch.Tensor) -> torch.Tensor:
        return jobs[:, 0] + cluster


class Chunked(nn.Module):
    def forward(self, jobs: torch.Tensor) -> torch.Tensor:
        return jobs.chunk(2, dim=1)[0][:, 0]


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        (Sorted(), "Sorted uses sort, which the export to ONNX does not know"),
        (Branching(), "Branching cannot be read symbolically"),
        (Grouped(), "Grouped uses Conv1d, which the export to ONNX does not know"),
        (Masked(), "Masked uses scaled_dot_product_attention with options"),
        (Chunked(), r"Chunked uses Tensor\.chunk, which"),
        (
            TwoAnswers(),
            "TwoAnswers returns 2 values, and its feature spec has the outputs priority",
        ),
        (TwoInputs(), r"does not run on the inputs of its feature spec, jobs float32 \[jobs, 8\]"),
        (nn.Linear(9, 1), r"does not run on the inputs of its feature spec"),
        (nn.BatchNorm1d(8, track_running_stats=False), "BatchNorm1d with running statistics only"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_what_cannot_be_exported_is_named(tmp_path: Path, module: nn.Module, sentence: str) -> None:
    """In one sentence, with the step that is to blame, and no file."""
    wrapped = module if type(module).__module__ == __name__ else nn.Sequential(module)
    with pytest.raises(UnsupportedFeatureError, match=sentence):
        export_policy(wrapped, SPEC, card(), tmp_path / "p.onnx")
    assert list(tmp_path.iterdir()) == []


class Wrong(nn.Module):
    """Says something else each time: no file can say the same."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, jobs: Any) -> Any:
        self.calls += 1
        return jobs[:, 0] + float(self.calls)


def test_a_file_that_says_something_else_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="differ by"):
        export_policy(Wrong(), SPEC, card(), tmp_path / "p.onnx")
    assert list(tmp_path.iterdir()) == []


def test_without_pytorch_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base install has the function, and says what it lacks."""
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "alloc.learning.pytorch", raising=False)
    with pytest.raises(BackendUnavailableError, match=r'pip install "\.\[learn\]"'):
        export_policy(Attention(), SPEC, card(), tmp_path / "p.onnx")


def test_outputs_of_another_shape_are_no_match(tmp_path: Path) -> None:
    """A broadcast would hide it."""
    policy = export_policy(FirstColumn(), SPEC, card(), tmp_path / "p.onnx")
    with pytest.raises(CertificateError, match="differ by inf"):
        assert_parity(KeepsAxis(), policy, [[np.ones((3, 8), np.float32)]])
    assert assert_parity(FirstColumn(), policy, [[np.ones((0, 8), np.float32)]]) == 0.0


class FirstColumn(nn.Module):
    def forward(self, jobs: torch.Tensor) -> tuple[torch.Tensor]:
        return (jobs[:, 0],)


class KeepsAxis(nn.Module):
    def forward(self, jobs: torch.Tensor) -> torch.Tensor:
        return jobs[:, :1]
