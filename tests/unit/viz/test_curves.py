"""Curves of guarantees."""

from sfumato.viz import belief_curve, tradeoff_curve


def test_a_tradeoff_curve_and_the_diagonal() -> None:
    picture = tradeoff_curve([0, 0.5, 1], [1, 0.2, 0], note="a note")
    diagonal, curve = picture.spec["layer"]
    assert picture.spec["title"]["subtitle"] == "a note"
    assert [point["misses"] for point in curve["data"]["values"]] == [1, 0.2, 0]
    assert diagonal["mark"]["strokeDash"]
    assert curve["encoding"]["x"]["scale"]["domain"] == [0, 1]


def test_beliefs_are_a_band_around_the_diagonal() -> None:
    picture = belief_curve([0.5], [0.27], [0.73], loss=1.0, chance=1e-6)
    band, _ = picture.spec["layer"]
    assert band["data"]["values"] == [{"prior": 0.5, "low": 0.27, "high": 0.73}]
    assert "e^1, except with a chance of at most 1e-06" in picture.spec["title"]["subtitle"]


def test_they_are_drawn(tmp_path) -> None:  # type: ignore[no-untyped-def]
    assert tradeoff_curve([0, 1], [1, 0]).save(tmp_path / "curve.svg").stat().st_size > 1000
