"""Labs that are older than the filter of Gaussian DP keep the filters that they were opened with."""

from __future__ import annotations

import json
import tarfile
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.lab.synthetic.rehearsal import StandIn, describe_rehearsal, list_stand_ins
from sfumato.ledger import books
from sfumato.privacy import caps, share_sigma
from unit.identity import programme

RECORDED = Path(programme.__file__).parent / "lab.tar.gz"
BUDGET, PEOPLE = sf.Budget(1, 1e-6), "population:who"
SQL = "SELECT COUNT(*) AS n, SUM(x) AS x FROM visits"


def test_a_recorded_lab_has_the_filters_that_it_had(tmp_path: Path) -> None:
    with tarfile.open(RECORDED) as archive:
        archive.extractall(tmp_path, filter="data")
    sf.accept(tmp_path / "lab", unproven=True)  # unpacking is copying
    with closing(sf.open(tmp_path / "lab")) as lab:
        allowed = [lab.ledger.read_allowance(name) for name in lab.ledger.list_accounts()]
        assert any(each.budget.delta for each in allowed)
        assert [each.caps for each in allowed] == [caps(each.budget, gaussian=False) for each in allowed]


def make_lab(folder: Path) -> sf.Lab:
    lab = sf.create(folder)
    rows = pa.table({"who": [1, 2, 3], "x": [1, 2, 3]})
    columns = {"x": sf.between(0, 10, step=1)}
    lab.register("visits", rows, unit=sf.Unit("who", 1), columns=columns, budget=BUDGET)
    return lab


def test_a_share_of_an_older_budget_is_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(books, "caps_of", lambda budget, gaussian: caps(budget, gaussian=False))
        make_lab(tmp_path / "older").close()
    before, now = share_sigma(BUDGET, 0.02, caps(BUDGET, gaussian=False)), share_sigma(BUDGET, 0.02)
    assert now < 0.95 * before
    for lab, sigma in ((sf.open(tmp_path / "older"), before), (make_lab(tmp_path / "newer"), now)):
        spend = lab.session().sql(SQL).plan({"share": 0.02}).spend
        assert sigma <= spend.multiplier < sigma * (1 + 2**-20)
        lab.session().sql(SQL).release(share=0.02)
        filtered = lab.ledger.read_allowance(PEOPLE).caps.gaussian is not None
        assert filtered is (sigma == now)
        assert lab.ledger.verify().charges == 1
        lab.close()


def test_a_rehearsal_of_an_older_lab_has_its_filters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of people and quotas, of older labs and new ones; told over HTTP too."""
    rows = pa.table({"id": [1, 2], "ward": ["A", "B"]})
    unit, wards = sf.Unit("id", 1), {"ward": sf.one_of("A", "B")}
    with monkeypatch.context() as earlier:
        earlier.setattr(books, "caps_of", lambda budget, gaussian: caps(budget, gaussian=False))
        older = make_lab(tmp_path / "older")
        older.register("wards", rows, unit=unit, columns=wards, budget=BUDGET)
        older.grant("ada", epsilon=0.5, delta=1e-7)
    older.grant("ben", epsilon=0.5, delta=1e-7)
    newer = make_lab(tmp_path / "newer")
    newer.grant("ada", epsilon=0.5, delta=1e-7)
    for place, (lab, analyst) in enumerate(((older, None), (older, "ada"), (older, "ben"), (newer, "ada"))):
        lab.session(analyst).rehearse(tmp_path / f"twin {place}", rows=20)
        with closing(sf.open(tmp_path / f"twin {place}")) as twin:
            shared = [name for name in twin.ledger.list_accounts() if name in lab.ledger.list_accounts()]
            assert (
                len(shared) == {older: 2, newer: 1}[lab] + (analyst is not None) * {older: 2, newer: 1}[lab]
            )
            for name in shared:
                assert twin.ledger.read_allowance(name) == lab.ledger.read_allowance(name)
        told = json.loads(json.dumps(describe_rehearsal(lab.session(analyst)._payer)))
        found = [StandIn.from_dict(each).older for each in told["tables"]]
        assert found == [each.older for each in list_stand_ins(lab, analyst)]
    older.close()
    newer.close()
