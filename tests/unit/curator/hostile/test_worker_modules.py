"""What a worker imports, which takes time, does not depend on the rows it finds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sfumato as sf
from ready_replies import reply_at_once
from sfumato.curator.hostile import reading
from unit.curator.hostile.bad_steps import NotesModules
from unit.curator.hostile.kinds import ASKED, SPEND, make_lab

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.lab.session import Session

ROWS = ("all", "without the unit", "none")


def _fit(model: Any, target: str | None) -> Callable[[Session], Any]:
    return lambda s: s.fit(model(), table="visits", features=["age", "cost"], target=target)


FITS: dict[str, Callable[[Session], Any]] = {
    "naive Bayes": _fit(lambda: sf.learn.GaussianNB(epsilon=1), "ward"),
    "k-means": _fit(lambda: sf.learn.KMeans(8, epsilon=1), None),
    "boosting": _fit(lambda: sf.learn.GradientBoosting(epsilon=1, trees=10), "ward"),
    "moments": _fit(lambda: sf.synth.Moments(epsilon=1, delta=1e-6), "ward"),
    "mean embedding": _fit(lambda: sf.synth.MERF(epsilon=1, delta=1e-6, waves=20, steps=1), "ward"),
    "quantile": lambda s: s.sql("SELECT QUANTILE_CONT(age, 0.9) AS q FROM visits").release(**SPEND),
    "keys": lambda s: s.sql("SELECT note, COUNT(*) AS n FROM visits GROUP BY note").release(
        epsilon=1, delta=1e-5
    ),
}
KINDS: dict[str, Callable[[Session], Any]] = {
    **{name: (lambda s, ask=ask: ask(s).release(**SPEND)) for name, ask in ASKED.items()},
    **FITS,
}


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, sf.Lab]:
    folder = tmp_path_factory.mktemp("modules")
    made = {
        name: make_lab(folder / str(at), target=name == "all", empty=name == "none")
        for at, name in enumerate(ROWS)
    }
    for lab in made.values():
        reply_at_once(lab, memory=2**29, places=2)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_workers_import_the_same_whatever_the_rows(
    labs: dict[str, sf.Lab], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, found = reading._ask, {}
    for name, lab in labs.items():
        path = tmp_path / name

        def ask(send: Any, done: Any, steps: Any, seconds: float, path: Path = path) -> str:
            return asked(send, done, tuple(NotesModules(step, str(path)) for step in steps), seconds)

        monkeypatch.setattr(reading, "_ask", ask)
        KINDS[kind](lab.session(hostile=True))
        found[name] = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    # A learner may ask more rounds of some rows than of others, by what was released to it.
    for one, other, third in zip(*found.values(), strict=False):
        assert one == other == third
