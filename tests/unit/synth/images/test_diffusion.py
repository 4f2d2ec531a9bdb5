"""Diffusion models that are trained with noise: what is drawn, what is refused, and what is paid."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

import sfumato as sf  # noqa: E402
from sfumato.deep.generators.denoiser import Denoiser, FlatNetwork, ImageNetwork, measure_denoising  # noqa: E402
from sfumato.deep.generators.noise_levels import LEVELS  # noqa: E402
from sfumato.deep.generators.samplers import DiffusionSampler  # noqa: E402
from sfumato.errors import UsageError  # noqa: E402
from sfumato.privacy import composition  # noqa: E402
from sfumato.synth.images import diffusion  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

RANDOM = np.random.default_rng(8)
LABELS = np.repeat([0, 1], [900, 300])
IMAGES = np.full((1200, 4, 4), 40.0)
IMAGES[LABELS == 0, :2], IMAGES[LABELS == 1, 2:] = 220, 200
IMAGES = np.clip(IMAGES + RANDOM.normal(0, 10, IMAGES.shape), 0, 255)
QUICK: dict[str, Any] = {
    "epsilon": 200,
    "delta": 1e-5,
    "classes": [0, 1],
    "bounds": (0, 255),
    "steps": 60,
    "warm_steps": 60,
    "width": 32,
    "draws": 2,
    "learning_rate": 1e-2,
    "average": 0.8,
}


@pytest.fixture
def stated_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise is stated, since solving for it takes long."""
    monkeypatch.setattr(diffusion, "solve_after", lambda *_: 0.3)


@pytest.mark.usefixtures("stated_noise", "seeded_steps")
@pytest.mark.parametrize(
    ("settings", "drawn"),
    [
        ({}, {}),
        pytest.param({"warm": 0}, {"sampler": "stochastic", "guidance": 0.5}, marks=pytest.mark.slow),
        ({"warm": 0, "parametrisation": "v"}, {"sampler": "stochastic"}),
        ({"network": "unet", "width": 8, "warm_steps": 100, "steps": 5}, {}),
    ],
)
def test_images_of_a_class_resemble_it(settings: dict[str, Any], drawn: dict[str, Any]) -> None:
    made = sf.synth.Diffusion(**{**QUICK, **settings}).fit(IMAGES, LABELS)
    rows, labels = made.sample(300, seed=1, steps=15, **drawn)
    assert rows.shape == (300, 4, 4)
    assert rows.dtype == IMAGES.dtype
    assert 0 <= rows.min() <= rows.max() <= 255
    # Classes differ by 160 in each half of an image; training need only find the sign. Its seeds are fixed,
    # and the noise of what is bought first is next to nothing at this ε.
    assert rows[labels == 0, :2].mean() > rows[labels == 0, 2:].mean() + 40
    assert rows[labels == 1, 2:].mean() > rows[labels == 1, :2].mean() + 20
    again, _ = made.sample(300, seed=1, steps=15, **drawn)
    assert (rows == again).all()
    # Noise of at most some tens in counts, at this ε: classes keep their shares.
    assert (labels == 0).mean() == pytest.approx(0.75, abs=0.2)
    alone, of = made.sample(5, labels=1, steps=2)
    assert alone.shape == (5, 4, 4)
    assert (of == 1).all()


FRAME = {
    "age": np.where(LABELS == 0, 30.0, 70.0) + RANDOM.normal(0, 4, 1200),
    "ward": np.where(RANDOM.random(1200) < np.where(LABELS == 0, 0.95, 0.05), "A", "B"),
}
DECLARED = {"age": (0, 110), "ward": ["A", "B", "C"]}


@pytest.mark.usefixtures("stated_noise", "seeded_steps")
def test_frames_have_numbers_and_listed_values() -> None:
    made = sf.synth.Diffusion(**{**QUICK, "bounds": DECLARED}).fit(FRAME, LABELS)
    table, labels = made.sample(400, seed=3, steps=15)
    assert isinstance(table, pa.Table)
    assert table.column_names == ["age", "ward"]
    age, ward = (table[name].to_numpy(zero_copy_only=False) for name in ("age", "ward"))
    assert 0 <= age.min() <= age.max() <= 110
    assert set(ward) <= {"A", "B", "C"}
    assert (ward[labels == 0] == "A").mean() > (ward[labels == 1] == "A").mean() + 0.2
    assert age[labels == 1].mean() > age[labels == 0].mean() + 10


# ---- what is paid ----


@pytest.mark.parametrize(("warm", "bought"), [(0.25, "moments"), (0, "class counts")])
def test_what_is_bought_first_is_part_of_the_price(warm: float, bought: str, tmp_path: Path) -> None:
    account = sf.learn.Account(tmp_path / "fits.ledger", epsilon=8, delta=1e-4)
    asked = {**QUICK, "epsilon": 2, "warm": warm, "steps": 3, "warm_steps": 1, "budget": account}
    made = sf.synth.Diffusion(**asked)
    quoted = made.quote(1200)
    made.fit(IMAGES, LABELS)
    assert made.split_ == quoted
    # Together they cost no more than was asked for, and not much less; each by itself costs less.
    whole = composition.epsilon([quoted.first, quoted.training], Fraction(1, 100_000), step=1e-3)
    assert 1.99 < whole <= 2
    assert 0 < quoted.first_epsilon < 2
    assert 0 < quoted.training_epsilon < 2
    assert quoted.first_epsilon + quoted.training_epsilon > 2
    assert bought in str(quoted)
    assert account.left < 8
    assert made.guarantee_.epsilon == 2
    without = sf.synth.Diffusion(**{**asked, "warm": 0.01 if warm else 0.5}).quote(1200)
    assert (without.multiplier < quoted.multiplier) == bool(warm)


REFUSED: list[tuple[str, Any, Any, dict[str, Any]]] = [
    ("SF-N316", IMAGES, LABELS, {"delta": None}),
    ("SF-N109", IMAGES, LABELS, {"epsilon": None, "delta": None}),
    ("SF-E213", IMAGES, LABELS + 5, {}),
    ("SF-E176", IMAGES[:0], LABELS[:0], {}),
    ("SF-N105", np.full((1200, 4), np.nan), LABELS, {}),
    ("SF-N105", {**FRAME, "age": np.full(1200, np.nan)}, LABELS, {"bounds": DECLARED}),
    ("SF-E176", IMAGES[:, 0, 0], LABELS, {}),
    ("SF-E176", IMAGES, LABELS[:9], {}),
    ("SF-E101", FRAME, LABELS, {"bounds": {"age": (0, 110)}}),
    ("SF-E179", IMAGES, LABELS, {"warm": 1}),
    ("SF-E179", IMAGES, LABELS, {"parametrisation": "x"}),
    ("SF-E179", IMAGES, LABELS, {"network": "cnn"}),
    ("SF-E179", IMAGES.reshape(1200, 16), LABELS, {"network": "unet"}),
    ("SF-E179", IMAGES, LABELS, {"label_dropout": 1}),
    ("SF-E179", IMAGES, LABELS, {"batch_size": 1201}),
    ("SF-E179", IMAGES, LABELS, {"draws": 10**9}),
    ("SF-N104", IMAGES, LABELS, {"draws": 1.5}),
    ("SF-N101", IMAGES, LABELS, {"learning_rate": -1}),
    ("SF-N101", IMAGES, LABELS, {"seed": -1}),
    ("SF-E176", np.zeros((20, 300)), np.zeros(20), {}),
]


@pytest.mark.parametrize(("code", "rows", "labels", "other"), REFUSED)
def test_bad_input_is_one_coded_error_before_the_charge(
    code: str, rows: Any, labels: Any, other: dict[str, Any], tmp_path: Path
) -> None:
    account = sf.learn.Account(tmp_path / "fits.ledger", epsilon=4, delta=1e-5)
    given = {**QUICK, "epsilon": 1, "delta": 1e-6, "budget": account, **other}
    with pytest.raises(UsageError) as refused:
        sf.synth.Diffusion(**given).fit(rows, labels)
    assert refused.value.code == code
    assert account.left == 4


@pytest.mark.usefixtures("stated_noise", "seeded_steps")
def test_samples_are_refused_before_a_fit_and_by_unknown_ways() -> None:
    made = sf.synth.Diffusion(**{**QUICK, "steps": 1, "warm": 0})
    with pytest.raises(UsageError, match="SF-N606"):
        made.sample(3)
    made.fit(IMAGES, LABELS)
    for given in ({"sampler": "euler"}, {"guidance": -1}):
        with pytest.raises(UsageError, match="SF-E179"):
            made.sample(3, **given)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="SF-E213"):
        made.sample(3, labels="x")


# ---- the parts ----


@pytest.mark.parametrize("name", ["edm", "v"])
def test_the_network_is_asked_for_numbers_of_variance_one(name: str) -> None:
    """What is left to say, (x − skip·z) / out, has the same size at every level for rows of the spread."""
    levels, random = LEVELS[name], torch.Generator().manual_seed(0)
    spread = (1 / 3) ** 0.5 if name == "edm" else 1.0
    for level in (levels.lowest, 0.1, 1.0, levels.highest):
        rows, noise = (torch.randn(20_000, dtype=torch.float64, generator=random) for _ in range(2))
        rows = rows * spread
        scaling = levels.scale(torch.tensor(level, dtype=torch.float64))
        noisy = rows + level * noise
        assert float((scaling.into * noisy).var()) == pytest.approx(1, abs=0.05)
        assert float(((rows - scaling.skip * noisy) / scaling.out).var()) == pytest.approx(1, abs=0.05)
    drawn = levels.draw(2_000)
    assert ((drawn > 0) & drawn.isfinite()).all()


def test_samplers_reach_the_rows_of_a_perfect_denoiser() -> None:
    """A network that always says the same row draws that row, and guidance leaves it as it is."""
    kept = torch.tensor([0.5, -0.25, 1.0])

    class Knows(Denoiser):
        def denoise(self, noisy: Any, level: float, labels: Any, guidance: float) -> Any:
            return kept.expand_as(noisy)

    made = Knows(FlatNetwork(3, 2, 4), LEVELS["edm"], 2, 3, 0.1)
    for churn in (0.0, 100.0):
        found = DiffusionSampler(12, churn, 0.0).draw(made, np.zeros(5, dtype=np.int64), 0)
        assert np.allclose(found, kept.numpy(), atol=1e-6)


def test_guidance_moves_away_from_what_is_said_without_a_class() -> None:
    class Says(torch.nn.Module):
        def forward(self, rows: Any, place: Any, labels: Any) -> Any:
            return torch.where(labels == 2, 0.1, 0.2)[:, None].expand_as(rows)

    made = Denoiser(Says(), LEVELS["edm"], 2, 3, 0.1)
    noisy, labels = torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64)
    plain, guided, far = (made.denoise(noisy, 0.5, labels, each)[0, 0] for each in (0.0, 1.0, 2.0))
    scale = float(LEVELS["edm"].scale(torch.tensor(0.5)).out)
    assert [float(each) / scale for each in (plain, guided, far)] == pytest.approx([0.2, 0.3, 0.4])


@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 3), (3, 6, 5)])
def test_images_with_colours_keep_their_shape(shape: tuple[int, ...]) -> None:
    numbers = int(np.prod(shape))
    made = Denoiser(ImageNetwork(shape, 2, 4), LEVELS["edm"], 2, numbers, 0.0)
    came = made(torch.rand(7, numbers + 1))
    assert came[0].shape == (7, numbers)
    assert measure_denoising(came, torch.rand(7, numbers)).shape == (7,)


def test_labels_are_dropped_while_it_trains_and_not_after() -> None:
    seen = []

    class Listens(torch.nn.Module):
        def forward(self, rows: Any, place: Any, labels: Any) -> Any:
            seen.append(labels)
            return rows

    made = Denoiser(Listens(), LEVELS["v"], 3, 2, 0.5)
    packed = torch.cat([torch.zeros(400, 2), torch.full((400, 1), 0.9)], 1)
    made.train()(packed)
    made.eval()(packed)
    # 400 fair coins: all alike with a chance of 2⁻³⁹⁹.
    assert set(seen[0].tolist()) == {2, 3}
    assert set(seen[1].tolist()) == {2}
