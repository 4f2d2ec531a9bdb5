"""Whatever goes wrong, the text is the same on neighbouring tables: an error message is a release too."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import SealedError, SfumatoError

COLUMNS = {"age": sf.between(0, 110), "ward": sf.one_of("A", "B"), "flag": sf.one_of(0, 1)}
QUESTIONS = [
    block.partition("\n=>\n")[0].strip()
    for block in (Path(__file__).parents[1] / "unit/queries/refusals.txt")
    .read_text(encoding="utf-8")
    .split("\n----\n")
]


def _rows(with_unit: bool) -> pa.Table:
    rows = {"patient_id": [1, 1, 2], "age": [30.0, 31.0, 70.0], "ward": ["A", "B", "A"], "flag": [0, 1, 1]}
    if with_unit:
        extra = {
            "patient_id": [None, 9, 9, 9],
            "age": [float("nan"), float("inf"), -1e300, None],
            "ward": ["Z'", None, "A", "\x00"],
            "flag": [7, None, 1, 0],
        }
        rows = {name: [*values, *extra[name]] for name, values in rows.items()}
    return pa.table({**rows, "age": pa.array(rows["age"], pa.float64())})


def _lab(folder: Path, with_unit: bool) -> sf.Lab:
    lab = sf.create(folder)
    lab.register(
        "visits",
        _rows(with_unit),
        unit=sf.Unit("patient_id", max_rows=2),
        columns=COLUMNS,
        budget=sf.Budget(epsilon=1),
    )
    return lab


@pytest.fixture
def neighbours(tmp_path: Path) -> tuple[sf.Lab, sf.Lab]:
    return _lab(tmp_path / "with", True), _lab(tmp_path / "without", False)


def _said(lab: sf.Lab, sql: str, **spend: object) -> str:
    try:
        return "shape " + str(lab.session().sql(sql).release(**spend).to_arrow().schema)  # type: ignore[arg-type]
    except SfumatoError as problem:
        text = "\n".join([str(problem), problem._repr_html_(), str(problem.to_dict())])
        return re.sub(r"[0-9a-f]{16}", "INCIDENT", text)


def test_refusals_are_identical(neighbours: tuple[sf.Lab, sf.Lab]) -> None:
    for sql in QUESTIONS:
        said = [_said(lab, sql, epsilon=0.001) for lab in neighbours]
        assert said[0] == said[1], sql


@pytest.mark.parametrize(
    "spend",
    [
        {},
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"epsilon": "1"},
        {"epsilon": 5},
        {"epsilon": 1e-13},
        {"epsilon": 0.1, "key": ""},
        {"epsilon": 0.1, "key": 7},
    ],
)
def test_bad_spends_are_identical_and_free(
    neighbours: tuple[sf.Lab, sf.Lab], spend: dict[str, object]
) -> None:
    said = [_said(lab, "SELECT COUNT(*) FROM visits", **spend) for lab in neighbours]
    assert said[0] == said[1]
    assert said[0].startswith("SF-")
    assert all(lab.ledger.verify().charges == 0 for lab in neighbours)


def test_columns_types_and_keys_are_identical(neighbours: tuple[sf.Lab, sf.Lab]) -> None:
    sql = "SELECT ward, flag, COUNT(*) AS n, AVG(age) AS a, SUM(flag) AS s FROM visits GROUP BY ward, flag"
    said = [lab.session().sql(sql).release(epsilon=0.5).to_arrow() for lab in neighbours]
    assert said[0].schema == said[1].schema
    assert said[0].select(["ward", "flag"]).equals(said[1].select(["ward", "flag"]))


def _vanished(lab: sf.Lab) -> None:
    for file in (lab.folder / "snapshots").iterdir():
        file.unlink()


def _corrupted(lab: sf.Lab) -> None:
    for file in (lab.folder / "snapshots").iterdir():
        file.write_bytes(b"not a database" * 1000)


@pytest.mark.parametrize("harm", [_vanished, _corrupted])
def test_failures_after_the_charge_say_one_sentence_and_keep_it(
    neighbours: tuple[sf.Lab, sf.Lab], harm: object
) -> None:
    said = []
    for lab in neighbours:
        harm(lab)  # type: ignore[operator]
        fresh = sf.open(lab.folder)
        said.append(_said(fresh, "SELECT COUNT(*) FROM visits", epsilon=0.25))
        assert fresh.ledger.spent("population:patient_id").pure == 250_000_000_000
        assert fresh.ledger.verify().releases == 0
    assert said[0] == said[1]
    assert said[0].startswith("SF-X901  The question was charged and could not be answered.")


def test_a_failure_after_the_charge_shows_nothing_but_a_number(
    neighbours: tuple[sf.Lab, sf.Lab], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(name: str) -> None:
        if name == "noise:drawn":
            raise ValueError("row 17 says SECRET")

    monkeypatch.setattr("sfumato.ledger.steps.step", failing)
    with pytest.raises(SealedError) as sealed:
        neighbours[0].session().sql("SELECT COUNT(*) FROM visits").release(epsilon=0.25)
    assert sealed.value.__context__ is None
    assert sealed.value.__cause__ is None
    assert "SECRET" not in capfd.readouterr().err
    held = [
        value
        for frame in _frames(sealed.value)
        for name, value in frame.items()
        if name in {"exact", "noisy"}
    ]
    assert held == []
    log = neighbours[0].folder / "incidents.log"
    assert sealed.value.facts["incident"] in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


def _frames(error: BaseException) -> list[dict[str, object]]:
    found, traceback = [], error.__traceback__
    while traceback:
        found.append(traceback.tb_frame.f_locals)
        traceback = traceback.tb_next
    return found
