"""Two questions never share a hash: whatever field of a hashed value differs, the hash differs.

Every hashed class is found by importing the package. Each field of each class is changed, and another hash is
required. Fields that are not hashed stand in `UNHASHED` with the reason why they change no answer.
"""

from __future__ import annotations

import copy
import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields, replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import sfumato
from sfumato.curator.plan.noisy_sum import NoisySum
from sfumato.curator.plan.plan import price_question
from sfumato.curator.plan.resolved import ResolvedQuestion
from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.curator.plan.spend import GaussianSpend, PureSpend
from sfumato.curator.plan.steps import Choices
from sfumato.curator.plan.summands import Summand
from sfumato.curator.question.measurement import CountOf, DistinctUnits
from sfumato.curator.question.relation import FunctionCall, Name
from sfumato.curator.streams.plan import ResolvedStream, StreamQuestion, price_stream
from sfumato.deep.described import describe_trainer
from sfumato.deep.tables.kernel import TrainingKernel
from sfumato.deep.trainer import Trainer
from sfumato.engines.program import CellKey, Counted, KeyedSums
from sfumato.engines.rows import Scan, UnitSizes
from sfumato.learn.evaluation_kernel import ModuleKernel
from sfumato.ledger.api import Charge, SnapshotRead
from sfumato.noise import LaplaceNoise, Surroundings
from sfumato.oracle.row_layout import IntegerCoding
from sfumato.privacy.account import price
from sfumato.privacy.canonical import _FORMS, canonical_json
from sfumato.privacy.events import Pure
from sfumato.queries.sql import parse_question
from sfumato.synth.images.diffusion_kernel import ClassCounts, DiffusionKernel
from unit.queries.test_plans import TABLES

for _module in pkgutil.walk_packages(sfumato.__path__, "sfumato."):
    importlib.import_module(_module.name)

KINDS = {
    f"{kind.__module__}.{kind.__qualname__}": kind
    for kind in sorted(_FORMS, key=lambda kind: (kind.__module__, kind.__qualname__))
    if kind.__module__.startswith("sfumato.")
}
"""Every class of the package that can be hashed."""

UNHASHED: dict[tuple[type, str], str] = {
    (SumSensitivity, "moves"): "the noise of a sum depends on its norms alone; moves lower the price",
    (Choices, "moves"): "they follow from the program and what its snapshots declare",
    (PureSpend, "shaped"): "the same question at the same ε; what was kept says which shape its noise has",
    (GaussianSpend, "shaped"): "the same question at the same σ; what was kept says which shape it has",
    (TrainingKernel, "run"): "runs what `described` describes at the price `whole`",
    (TrainingKernel, "coding"): "follows from the layout and the module",
    (ModuleKernel, "predictor"): "`model` describes it with a digest of its weights",
}
"""Fields that are not hashed, and why two values that differ in them alone give the same answer."""

SHARED_TAGS = {
    "Gaussian": "an event is a price and the other is the noise of a sum: no field holds both",
    "Laplace": "as Gaussian",
    "Pure": "an event has no δ and no words, which the spend has",
    "Units": "the engine's term has no field, the question's measurement has one",
}
"""Tags of more than one class, and why their values are never taken for each other."""


class _Run:
    """Stands for a training run, of which the settings and the price are hashed."""

    def __init__(self, steps: int, epsilon: int) -> None:
        self.settings = SimpleNamespace(describe=lambda: {"steps": steps})
        self.run = SimpleNamespace(event=Pure(epsilon))


_MOVED = {"sensitivity": (SumSensitivity(4, 16), SumSensitivity(4, 4), SumSensitivity(2, 4))}
# Classes with a form of their own: fields by name, each with a value and then all others that are tried.
OWN: dict[type, list[dict[str, tuple[Any, ...]]]] = {
    Scan: [{"snapshot": ("visits-1.aa", "visits-2.aa", "calls-1.aa")}],
    UnitSizes: [{"snapshot": ("visits-1.aa", "visits-2.aa", "calls-1.aa")}],
    CellKey: [{"nulls": (False, True)}, {"nulls": (True, False)}],
    KeyedSums: [{"nulls": ((), (0,), (1,))}],
    SumSensitivity: [{"l1": (4, 5), "l2_squared": (4, 16), "moves": (((4, 1),), ((1, 4),))}],
    PureSpend: [{"shaped": (False, True)}],
    GaussianSpend: [{"shaped": (False, True)}],
    NoisySum: [
        {**_MOVED, "of": (Summand(Counted(), 1, Fraction(1)), Summand(Counted(), 2, Fraction(1)), 3, None)},
        {**_MOVED, "of": (3, 4)},
        {**_MOVED, "of": (None, 3)},
    ],
    Choices: [
        {
            "moves": (((4, 1),), ((1, 4),)),
            "around": (None, Surroundings(LaplaceNoise(3)), Surroundings(LaplaceNoise(4))),
        }
    ],
    TrainingKernel: [{}],
    ModuleKernel: [{}],
    IntegerCoding: [{"group": ("", "x", "y")}],
    DiffusionKernel: [
        {
            "run": (_Run(3, 1), _Run(4, 1), _Run(3, 2)),
            "first": (ClassCounts(2, Fraction(1)), ClassCounts(3, Fraction(1))),
        }
    ],
}


def samples(kind: type) -> Iterator[dict[str, tuple[Any, ...]]]:
    """Yield values of the fields of a class: each with the value that it has, and others."""
    for own in OWN.get(kind, [{}]):
        yield {each.name: own.get(each.name, (each.name, f"other {each.name}")) for each in fields(kind)}


def make(kind: type, values: dict[str, Any]) -> Any:
    """Return a value whose fields are set without being checked: only their hash matters."""
    made = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_field_changes_the_hash(kind: type) -> None:
    for sample in samples(kind):
        first = {name: each[0] for name, each in sample.items()}
        for name, (_, *others) in sample.items():
            written = [canonical_json(make(kind, first | {name: each})) for each in (first[name], *others)]
            different = 1 if (kind, name) in UNHASHED else len(written)
            assert len(set(written)) == different, f"{kind.__name__}.{name}"


def test_forms_of_their_own_have_values_of_their_own() -> None:
    """Classes that are written by a function, not by their fields, are listed, and no others are."""
    by_function = {kind for kind in KINDS.values() if "tagged" not in _FORMS[kind].__qualname__}
    assert by_function == set(OWN)
    assert {kind for kind, _ in UNHASHED} <= by_function


def test_tags_tell_classes_apart() -> None:
    tags: dict[str, list[str]] = defaultdict(list)
    for kind in KINDS.values():
        for sample in samples(kind):
            tag = _FORMS[kind](make(kind, {name: each[0] for name, each in sample.items()}))[""]
            tags[tag] += [] if kind.__name__ in tags[tag] else [kind.__name__]
    assert {tag for tag, kinds in tags.items() if len(kinds) > 1} == set(SHARED_TAGS)


def test_leaves_are_told_apart() -> None:
    """Numbers, texts, truth values and missing ones have different texts, and floats have none."""
    leaves = [1, "1", True, "true", None, "null", "", (), ((),), (1,), ("1",), {"1": 1}, "[]", -1]
    assert len({canonical_json(each) for each in leaves}) == len(leaves)
    for each in (1.0, np.float64(1), np.int64(1), b"1", {1}):
        with pytest.raises(TypeError, match="has no tag"):
            canonical_json(each)


def test_the_ledger_tells_snapshots_of_one_number_apart() -> None:
    """The identity of a snapshot is not in the hash of a scan. The ledger compares it by itself."""
    plans = []
    for identity in ("a" * 32, "b" * 32):
        tables = {"visits": replace(TABLES["visits"], identity=identity)}
        resolved = ResolvedQuestion(tables.__getitem__, parse_question("SELECT COUNT(*) FROM visits"))
        plans.append(price_question(resolved, PureSpend(Fraction(1))))
    assert len({plan.request for plan in plans}) == 1
    reads = [tuple(SnapshotRead(*each) for each in plan.identities) for plan in plans]
    bound = {replace(CHARGE, reads=each).bound_request for each in reads}
    assert len(bound) == 2


CHARGE = Charge(("population:people",), price(Pure(1)), "a" * 64, {"analyst": "ada"}, reads=())
CHARGES: dict[str, Any] = {
    "accounts": ("population:others",),
    "cost": price(Pure(2)),
    "request": "b" * 64,
    "about": {"analyst": "bob"},
    "key": "first",
    "neighbours": "add-remove",
    "reads": (SnapshotRead("visits", "a" * 32),),
}


@pytest.mark.parametrize("name", [each.name for each in fields(Charge) if each.init])
def test_every_field_of_a_charge_is_in_its_entry(name: str) -> None:
    changed = replace(CHARGE, **{name: CHARGES[name]})
    assert changed.write_entry_body("2026-01-01", "") != CHARGE.write_entry_body("2026-01-01", "")


TICKS = {**TABLES, "visits": replace(TABLES["visits"], identity="a" * 32)}
STREAM = StreamQuestion(
    relation=parse_question("SELECT COUNT(*) FROM visits").relation,
    time=Name("day"),
    measure=CountOf(None),
    horizon=8,
    start="2020-01-01",
    participations=2,
    contribution=2,
)
PEOPLE = replace(
    STREAM, measure=DistinctUnits(Name("patient_id")), participations=2, contribution=1, window=3
)
STREAMS: dict[str, tuple[StreamQuestion, Any]] = {
    "relation": (STREAM, parse_question("SELECT COUNT(*) FROM visits WHERE age >= 65").relation),
    "time": (STREAM, FunctionCall("truncate_week", (Name("day"),))),
    "measure": (STREAM, CountOf(Name("gain"))),
    "horizon": (STREAM, 9),
    "start": (STREAM, "2020-01-02"),
    "keys": (STREAM, (Name("ward"),)),
    "participations": (STREAM, 3),
    "separation": (STREAM, 2),
    "contribution": (STREAM, 3),
    "window": (PEOPLE, 4),
    "series": (STREAM, "d" * 64),
}


@pytest.mark.parametrize("name", [each.name for each in fields(StreamQuestion)])
def test_every_field_of_a_stream_changes_its_request(name: str) -> None:
    asked, other = STREAMS[name]
    spend = GaussianSpend(Fraction(3), "")
    requests = {
        price_stream(ResolvedStream(TICKS.__getitem__, each), spend).request
        for each in (asked, replace(asked, **{name: other}))
    }
    assert len(requests) == 2


TRAINER = Trainer(torch.nn.Linear(2, 1), torch.nn.functional.mse_loss, 1.0, 1e-6, rows=100)
NOT_DESCRIBED = {
    "bounds": "the layout and the program that reads rows follow from them, and are hashed",
    "missing": "as the bounds",
    "checkpoint": "where a run that goes on is kept",
    "resumes": "how often a run may go on",
    "verbose": "what is printed",
    "budget": "who pays for a run in memory",
    "multiplier_": "found by a run",
    "coding_": "found by a run",
}
"""Fields that do not describe a run, and why."""
TRAINERS: dict[str, Any] = {
    "module": torch.nn.Linear(2, 1),
    "loss": torch.nn.functional.l1_loss,
    "optimiser": torch.optim.Adam,
}


def perturb(value: Any) -> Any:
    """Return another value of the same kind."""
    if value is None:
        return 7
    return f"{value}, another" if isinstance(value, str) else value + 1


@pytest.mark.parametrize("name", [each.name for each in fields(Trainer) if each.name not in NOT_DESCRIBED])
def test_every_setting_of_a_trainer_is_described(name: str) -> None:
    changed = copy.copy(TRAINER)
    value = getattr(TRAINER, name)
    other = TRAINERS[name] if name in TRAINERS else perturb(value)
    object.__setattr__(changed, name, other)
    assert describe_trainer(TRAINER) == describe_trainer(TRAINER)
    assert describe_trainer(changed) != describe_trainer(TRAINER)
