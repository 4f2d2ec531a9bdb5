"""Generators, replayed on tables with and without an extreme row; a diffusion model, by canaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.audit.catalogue.entries import CatalogueEntry
from sfumato.audit.one_run import CanaryVerdict, draw_inclusion, one_run
from sfumato.audit.replay import replay
from sfumato.privacy.events import Sequential

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.audit.replay import Replayed

_FAR = 1e6
_SIDE = 4
_LABELLED: dict[str, Any] = {"bounds": (0, 255), "classes": [0, 1]}
_DELTA = 1e-5
_TABLES: dict[str, dict[str, Any]] = {
    "Marginals, pure ε": {"epsilon": 3, "bins": 4, "workload": 2},
    "Marginals, ε and δ": {"epsilon": 3, "delta": 1e-7, "bins": 4},
    "Marginals, tree": {"rho": 0.5, "bins": 4, "method": "mst"},
}


def _generate_table(settings: dict[str, Any]) -> Replayed:
    import pyarrow as pa

    from sfumato import synth
    from sfumato.curator.catalog.columns import between, one_of
    from sfumato.synth.spending import Currency, read_amount, read_budget

    bounds = {"a": between(-3, 5), "b": between(0, 1000), "c": one_of("p", "q", "r")}
    rng = np.random.default_rng(1)
    columns = {"a": rng.normal(1, 2, 90), "b": rng.uniform(0, 1100, 90), "c": rng.choice(["p", "q", "s"], 90)}
    columns["a"][0], columns["b"][0] = _FAR, np.nan
    rows = pa.table(columns)
    spend = {name: settings.get(name) for name in ("epsilon", "delta", "rho")}
    concentrated, amount = read_amount(read_budget(spend))

    def program(frame: pa.Table) -> Any:
        return synth.Marginals(**settings, bounds=bounds).fit(frame).sample(20, seed=0).to_pydict()

    pairs = [(rows, rows.slice(1)), (rows.slice(0, 1), rows.slice(0, 0))]
    return replay(program, pairs, claim=Currency(concentrated).make_event(amount))


def _images() -> Iterator[tuple[Any, Any]]:
    """Yield small images with labels, without and with a white or a black one, both ways round."""
    rng = np.random.default_rng(4)
    rows, labels = rng.integers(0, 256, (40, _SIDE, _SIDE)).astype(np.uint8), rng.integers(0, 2, 40)
    for shade in (255, 0):
        added = np.full((1, _SIDE, _SIDE), shade, np.uint8)
        more = np.concatenate([rows, added]), np.append(labels, 1)
        yield (rows, labels), more
        yield more, (rows, labels)


def _generate_images(name: str, settings: dict[str, Any]) -> Replayed:
    from sfumato import synth

    made = getattr(synth, name)
    claim = Sequential(tuple(made(**_LABELLED, **settings).fit_budget().events))

    def program(data: tuple[Any, Any]) -> list[Any]:
        rows, labels = made(**_LABELLED, **settings).fit(*data).sample(10, seed=0)
        return [rows.astype(float), labels]

    return replay(program, _images(), claim=claim)


def _diffuse(effort: int, alpha: float) -> CanaryVerdict:
    """Return what gradient canaries show of the private steps; what comes before is that of `Moments`."""
    from sfumato import deep, synth
    from sfumato.deep.generators.diffusion import make_rows

    canaries, images, numbers = 500 * min(effort, 8), 50, 10
    units = canaries + images
    made = synth.Diffusion(
        epsilon=4, delta=_DELTA, warm=0, steps=2, batch_size=units, draws=3, width=6, **_LABELLED
    )
    kernel = made.make_kernel(made.quote(units), (numbers,), numbers, 2)
    rng = np.random.default_rng(3)
    rows = make_rows(rng.uniform(-1, 1, (images, numbers)), rng.integers(0, 2, images), 2)
    included = draw_inclusion(canaries)
    trainer = kernel.run.settings.make_trainer(4, _DELTA, units)
    run = deep.score_gradient_canaries(trainer, (rows.inputs, rows.targets), included)
    return one_run(run.scores, included, run.event, delta=_DELTA, independent=True, alpha=alpha)


def list_generators() -> list[CatalogueEntry]:
    """Return an entry for every generator."""
    tables = [
        CatalogueEntry("generator", name, lambda *_, s=settings: _generate_table(s))
        for name, settings in _TABLES.items()
    ]
    images = [
        CatalogueEntry("generator", "Moments", lambda *_: _generate_images("Moments", {"rho": 0.5})),
        CatalogueEntry(
            "generator",
            "MERF",
            lambda *_: _generate_images("MERF", {"rho": 0.5, "waves": 20, "steps": 3}),
            "torch",
        ),
        CatalogueEntry("generator", "Diffusion, its steps", _diffuse, "torch"),
    ]
    return [*tables, *images]
