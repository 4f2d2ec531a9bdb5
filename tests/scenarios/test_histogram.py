"""The histogram experiment: the average cell error is what the noise's law says."""

from sfumato.cli import histogram

FALSE_ALARM = 1e-11  # four normal means, each beyond seven standard errors
TALK_CELLS = 64_909


def test_average_errors_fit_the_exact_expectation() -> None:
    found = histogram.run()
    assert histogram.CELLS == TALK_CELLS
    assert [errors.epsilon for errors in found.errors] == [1, 0.1, 0.01, 0.001]
    for errors in found.errors:
        assert errors.noisy.shape == (TALK_CELLS,)
        assert abs(errors.average - errors.expected) < 7 * errors.standard_error


def test_cells_are_a_square_less_its_corners() -> None:
    x, y = histogram.cell_places()
    kept = set(zip(x.tolist(), y.tolist(), strict=True))
    assert len(kept) == 255 * 255 - 116
    assert (127, 127) in kept
    assert all(corner not in kept for corner in [(0, 0), (254, 0), (0, 254), (254, 254)])
