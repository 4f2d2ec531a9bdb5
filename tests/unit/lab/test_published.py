"""Published answers: paid for once by the steward, read by everyone for nothing."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato.cli.main import main
from sfumato.errors import BudgetError, PolicyError, UsageError

VISITS = pa.table({"who": [1, 2, 2, 3], "z": ["a", "b", "a", "b"]})
COUNT = "SELECT z, COUNT(*) AS n FROM visits GROUP BY z"


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    lab = sf.create(tmp_path / "lab")
    columns = {"z": sf.one_of("a", "b")}
    lab.register("visits", VISITS, unit=sf.Unit("who", 2), columns=columns, budget=sf.Budget(1))
    lab.grant("ada", epsilon=0.001)
    return lab


def left(lab: sf.Lab) -> float:
    return lab.budget.accounts[0].left_epsilon


def test_everyone_reads_what_was_published_for_nothing(lab: sf.Lab) -> None:
    release = lab.publish(COUNT, epsilon=0.25)
    before = left(lab)
    (published,) = sf.open(lab.folder).session("ada").published()
    assert (published.text, published.spend) == (COUNT, {"epsilon": Fraction(1, 4)})
    read = published.read()
    assert read.to_dict()["columns"] == release.to_dict()["columns"]
    assert read.receipt.replayed
    assert left(lab) == before == 0.75


@pytest.mark.parametrize(
    "spend",
    [{"epsilon": 0.1}, {"share": 0.125}, {"error": {"n": 200}}],
    ids=lambda spend: next(iter(spend)),
)
def test_any_way_to_spend_is_found_again(lab: sf.Lab, spend: dict[str, object]) -> None:
    release = lab.publish(COUNT, **spend)  # type: ignore[arg-type]
    (published,) = lab.published()
    assert published.read().receipt.entry == release.receipt.entry


def test_a_question_is_listed_once_and_in_order(lab: sf.Lab) -> None:
    lab.publish(COUNT, epsilon=0.1)
    lab.publish("SELECT COUNT(*) AS n FROM visits", epsilon=0.1)
    lab.publish(COUNT, epsilon=0.1)
    assert [each.text for each in lab.published()] == [COUNT, "SELECT COUNT(*) AS n FROM visits"]
    assert left(lab) == pytest.approx(0.8)


def test_what_is_refused_is_not_listed(lab: sf.Lab) -> None:
    with pytest.raises(BudgetError):
        lab.publish(COUNT, epsilon=2)
    with pytest.raises(PolicyError):
        lab.publish("SELECT z FROM visits", epsilon=0.1)
    assert lab.published() == ()


def test_an_answer_stays_readable_with_its_date_when_the_table_changes(lab: sf.Lab) -> None:
    release = lab.publish(COUNT, epsilon=0.25)
    lab.advance("visits", VISITS, columns={"z": sf.one_of("b", "a", "c")})
    (published,) = sf.open(lab.folder).session("ada").published()
    assert not published.is_current
    assert published.read().to_dict()["columns"] == release.to_dict()["columns"]
    assert f"(published {published.day}; the table has changed since)" in str(published)
    assert left(lab) == 0.75
    lab.publish(COUNT, epsilon=0.25)
    assert [each.is_current for each in lab.published()] == [False, True]
    lab.drop("visits")
    assert [each.read().receipt.replayed for each in lab.published()] == [True, True]


def test_an_answer_from_an_older_file_is_never_asked_anew_and_hides_no_other(lab: sf.Lab) -> None:
    lab.publish(COUNT, epsilon=0.25)
    file = lab.folder / "published.json"
    old = json.loads(file.read_text())
    del old["published"][0]["tables"], old["published"][0]["day"]
    file.write_text(json.dumps(old))
    assert lab.published()[0].read().receipt.replayed
    lab.advance("visits", VISITS)
    lab.publish(COUNT, epsilon=0.25)
    stale, fresh = lab.published()
    with pytest.raises(PolicyError) as refusal:
        stale.read()
    assert refusal.value.code == "SF-C135"
    assert left(lab) == 0.5
    shown = CliRunner().invoke(main, ["published", "--lab", str(lab.folder)])
    assert shown.exit_code == 0
    assert "SF-C135" in shown.stdout
    assert str(fresh) in shown.stdout
    shutil.copytree(lab.folder, lab.folder.with_name("copy"))
    copied = CliRunner().invoke(main, ["published", "--lab", str(lab.folder.with_name("copy"))])
    assert copied.stdout == shown.stdout


def test_a_damaged_file_says_so(lab: sf.Lab) -> None:
    (lab.folder / "published.json").write_text("[")
    with pytest.raises(UsageError) as refusal:
        lab.published()
    assert refusal.value.code == "SF-C112"
