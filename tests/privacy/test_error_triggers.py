"""Whatever goes wrong, the text is the same on neighbouring tables: an error message is a release too.

Each trigger is pulled in five labs: one, and four with one person more whose rows are extreme, missing, in
odd scripts or very many. Every word and the exit code must agree, but for the incident's number. What fails
before the charge costs nothing; what fails after it stays charged.
"""

from __future__ import annotations

import gc
import json
import re
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato.cli.main import main
from sfumato.errors import SealedError, SfumatoError
from sfumato.ledger import failpoints
from sfumato.ledger.sqlite.backup import accept_ledger

PEOPLE = "population:patient_id"
COLUMNS: dict[str, Any] = {
    "age": sf.between(0, 110),
    "ward": sf.one_of("A", "B"),
    "flag": sf.one_of(0, 1),
    "x": sf.one_of(*range(1001)),
    "y": sf.one_of(*range(1001)),
}
ODD: dict[str, list[tuple[Any, ...]]] = {
    "nobody": [],
    "extreme": [("p9", 1e300, "A", 2**40, 1, "n"), ("p9", float("-inf"), "B", -(2**40), 1, "n")],
    "missing": [("p9", float("nan"), None, None, None, None), ("p9", None, "", None, None, None)],
    "scripts": [("п9\u202e'", 5.0, "Z'", 7, 1, "\x00"), ("п9\u202e'", 5.0, "Ａ\u200b", 1, 1, "💥")],
    "crowded": [("p9", 109.0, "A", 1, 1000, "n")] * 500,
}
"""Rows of the one person more: patient_id, age, ward, flag, x and y, name."""

Act = Callable[[sf.Lab], object]


@dataclass(frozen=True, slots=True)
class Trigger:
    """Something that fails: what is done to the lab's folder first, what is called, and what it costs."""

    act: Act
    harm: Callable[[Path], None] | None = None
    charged: str | None = "nothing"
    """What is spent of ε afterwards: nothing, a quarter, or None where the ledger itself cannot say."""


# ---- before the charge -------------------------------------------------------------------------------------


def sql(text: str, **spend: Any) -> Trigger:
    return Trigger(lambda lab: lab.session().sql(text).release(**(spend or {"epsilon": 0.01})))


def count(**spend: Any) -> Trigger:
    return Trigger(lambda lab: lab.session().sql("SELECT COUNT(*) AS n FROM visits").release(**spend))


def answer(lab: sf.Lab, epsilon: float, **more: Any) -> Any:
    """A question that is answered; what comes after it fails."""
    return lab.session().sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=epsilon, **more)


QUESTIONS = {
    "unknown table": "SELECT COUNT(*) FROM visit",
    "unknown column": "SELECT AVG(agee) FROM visits",
    "undeclared column": "SELECT COUNT(name) FROM visits",
    "undeclared key": "SELECT name, COUNT(*) FROM visits GROUP BY name",
    "unit shown": "SELECT patient_id, COUNT(*) FROM visits GROUP BY patient_id",
    "unit compared": "SELECT COUNT(*) FROM visits WHERE patient_id = 'p9'",
    "row shown": "SELECT age FROM visits",
    "no SQL": "SELECT COUNT(* FROM visits",
    "an open text": "SELECT COUNT(*) FROM visits WHERE ward = 'A",
    "two statements": "SELECT COUNT(*) FROM visits; SELECT COUNT(*) FROM visits",
    "too long": "SELECT COUNT(*) FROM visits WHERE " + "age > 1 AND " * 3000 + "age > 1",
    "too deep": "SELECT COUNT(*) FROM visits WHERE " + "NOT " * 200 + "age = 1",
    "half a character": 'SELECT COUNT(*) AS "\ud800" FROM visits',
    "a number too large": "SELECT COUNT(*) FROM visits WHERE age > 1e400",
    "a number too long": f"SELECT COUNT(*) FROM visits WHERE age > {'9' * 60}",
    "a typed zero divides": "SELECT COUNT(*) / 0 AS n FROM visits",
    "a computed zero divides": "SELECT COUNT(*) / (1 - 1) AS n FROM visits",
    "an overflow": "SELECT COUNT(*) + 1e30 * 1e30 AS n FROM visits",
    "an angle of nothing": "SELECT COUNT(*) FROM visits WHERE ACOS(age - 109) > 0",
    "a cast that fails": "SELECT COUNT(*) FROM visits WHERE CAST(name AS INT) > 0",
    "an error of their own": "SELECT COUNT(*) FROM visits WHERE CASE WHEN age > 100 THEN error('x') END",
    "a text for a number": "SELECT COUNT(*) FROM visits WHERE age = 'old'",
    "a value not listed": "SELECT COUNT(*) FROM visits WHERE ward = 'Z'''",
    "an empty value": "SELECT COUNT(*) FROM visits WHERE ward = ''",
    "a text and a number": "SELECT COUNT(*) FROM visits WHERE ward > 3",
    "groups of numbers": "SELECT age, COUNT(*) FROM visits GROUP BY age",
    "too many groups": "SELECT x, y, COUNT(*) FROM visits GROUP BY x, y",
    "a sum of texts": "SELECT SUM(ward) FROM visits",
    "the largest": "SELECT MAX(name) FROM visits",
    "one name twice": "SELECT COUNT(*) AS n, AVG(age) AS n FROM visits",
    "a function that is none": "SELECT COUNT(*) + SOUNDEX(age) FROM visits",
    "having a row": "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING age > 1",
    "order by nothing known": "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY name",
    "no rows wanted": "SELECT COUNT(*) FROM visits LIMIT 0",
    "different values": "SELECT COUNT(DISTINCT name) FROM visits",
}
SPENDS: dict[str, dict[str, Any]] = {
    "no price": {},
    "ε of zero": {"epsilon": 0},
    "ε below zero": {"epsilon": -1},
    "ε not a number": {"epsilon": float("nan")},
    "ε without end": {"epsilon": float("inf")},
    "ε in words": {"epsilon": "1"},
    "ε too large": {"epsilon": 5},
    "ε too small": {"epsilon": 1e-17},
    "two prices": {"epsilon": 0.1, "rho": 0.1},
    "δ alone": {"delta": 1e-6},
    "δ of a pure budget": {"epsilon": 0.1, "delta": 1e-6},
    "δ of one": {"epsilon": 0.1, "delta": 1},
    "ρ of a pure budget": {"rho": 0.1},
    "share of two": {"share": 2},
    "share of zero": {"share": 0},
    "error of nothing known": {"error": {"m": 5}},
    "error of zero": {"error": {"n": 0}},
    "error too small": {"error": {"n": 1e-9}},
    "error in words": {"error": "small"},
    "error without a name": {"error": 5},
    "a guess without a name": {"epsilon": 0.1, "given": 5},
    "a guess too many": {"epsilon": 0.1, "given": {"m": 5}},
    "a guess below zero": {"epsilon": 0.1, "given": {"n": -5}},
    "an empty key": {"epsilon": 0.1, "key": ""},
    "a key of numbers": {"epsilon": 0.1, "key": 7},
}


def other_question_same_key(lab: sf.Lab) -> None:
    answer(lab, 0.25, key="k")
    lab.session().sql("SELECT SUM(age) AS n FROM visits").release(epsilon=0.25, key="k")


def population_used_up(lab: sf.Lab) -> None:
    answer(lab, 0.25)
    answer(lab, 0.76)


def quota_used_up(lab: sf.Lab) -> None:
    lab.grant("ada", epsilon=0.25)
    lab.session("ada").sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=0.25)
    lab.session("ada").sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=0.26)


def registered_again(lab: sf.Lab) -> None:
    lab.register("visits", pa.table({"age": [1]}), unit=sf.ROW, budget=sf.Budget(1))


CALLS: dict[str, Trigger] = {
    "an analyst without a quota": Trigger(lambda lab: lab.session("bob")),
    "a quota used up": Trigger(quota_used_up, charged="a quarter"),
    "a budget used up": Trigger(population_used_up, charged="a quarter"),
    "a key used again": Trigger(other_question_same_key, charged="a quarter"),
    "an average by its error": Trigger(
        lambda lab: lab.session().sql("SELECT AVG(age) AS a FROM visits").quote(error={"a": 1})
    ),
    "a frame of nothing known": Trigger(lambda lab: lab.session().table("visit").count()),
    "a frame's condition": Trigger(lambda lab: lab.session().table("visits").where("name = 'n'").count()),
    "a frame's condition that is none": Trigger(lambda lab: lab.session().table("visits").where("age >")),
    "a frame's key": Trigger(lambda lab: lab.session().table("visits").group_by("name").count()),
    "a frame's number": Trigger(lambda lab: lab.session().table("visits").agg(n=7)),  # type: ignore[arg-type]
    "a frame without numbers": Trigger(lambda lab: lab.session().table("visits").agg()),
    "a confidence of two": Trigger(lambda lab: answer(lab, 0.25).interval(2), charged="a quarter"),
    "a chart of nothing known": Trigger(lambda lab: answer(lab, 0.25).plot("name"), charged="a quarter"),
    "a table registered again": Trigger(registered_again),
    "a quota for nobody": Trigger(lambda lab: lab.grant("a:b", epsilon=1)),
}


# ---- the ledger fails, at the charge -----------------------------------------------------------------------


def _overwritten(file: str) -> Callable[[Path], None]:
    def harm(folder: Path) -> None:
        (folder / file).write_bytes(b"not a database" * 1000)

    return harm


def _removed(file: str) -> Callable[[Path], None]:
    return lambda folder: (folder / file).unlink()


def closed(lab: sf.Lab) -> None:
    lab.ledger.close()
    answer(lab, 0.25)


@contextmanager
def full_disk() -> Iterator[None]:
    """The operating system lets no file of this process grow beyond its first byte."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def full_at_the_charge(lab: sf.Lab) -> None:
    with full_disk():
        answer(lab, 0.25)


def replaced_while_open(lab: sf.Lab) -> None:
    ledger = lab.folder / "ledger.sqlite"
    shutil.copy(ledger, lab.folder / "copy")
    (lab.folder / "copy").replace(ledger)
    answer(lab, 0.25)


LEDGERS: dict[str, Trigger] = {
    "a ledger closed": Trigger(closed, charged=None),
    "a ledger gone": Trigger(closed, _removed("ledger.sqlite"), charged=None),
    "a ledger overwritten": Trigger(closed, _overwritten("ledger.sqlite"), charged=None),
    "a ledger replaced": Trigger(replaced_while_open, charged=None),
    "a disk full at the charge": Trigger(full_at_the_charge),
    "a catalog overwritten": Trigger(lambda lab: answer(lab, 0.25), _overwritten("catalog.json")),
}


# ---- after the charge --------------------------------------------------------------------------------------


def _snapshot(folder: Path) -> Path:
    return next((folder / "snapshots").glob("visits*.duckdb"))


def _emptied(folder: Path) -> None:
    _snapshot(folder).write_bytes(b"")


def _cut(folder: Path) -> None:
    file = _snapshot(folder)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _garbled(folder: Path) -> None:
    """Every byte after the file's own header is turned round."""
    body = _snapshot(folder).read_bytes()
    _snapshot(folder).write_bytes(body[:4096] + bytes(255 - byte for byte in body[4096:]))


def _directory(folder: Path) -> None:
    file = _snapshot(folder)
    file.unlink()
    file.mkdir()


def _another_table(folder: Path) -> None:
    shutil.copy(next((folder / "snapshots").glob("plain*.duckdb")), _snapshot(folder))


def _no_log(folder: Path) -> None:
    (folder / "incidents.log").mkdir()


def quarter(lab: sf.Lab) -> None:
    answer(lab, 0.25)


def failing(step: str, problem: Exception) -> Act:
    def act(lab: sf.Lab) -> None:
        def fail(name: str) -> None:
            if name == step:
                raise problem

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(failpoints, "reach", fail)
            answer(lab, 0.25)

    return act


class WordlessError(Exception):
    def __str__(self) -> str:
        raise ValueError("SESAME")


def full_after(step: str) -> Act:
    def act(lab: sf.Lab) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

        def fill(name: str) -> None:
            if name == step:
                resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(failpoints, "reach", fill)
            try:
                answer(lab, 0.25)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return act


OUT_OF_REACH: dict[str, Trigger] = {
    "a snapshot gone": Trigger(quarter, lambda folder: _snapshot(folder).unlink()),
    "a snapshot overwritten": Trigger(quarter, lambda folder: _overwritten(str(_snapshot(folder)))(folder)),
    "a snapshot emptied": Trigger(quarter, _emptied),
    "a snapshot cut": Trigger(quarter, _cut),
    "a snapshot garbled": Trigger(quarter, _garbled),
    "a folder for a snapshot": Trigger(quarter, _directory),
}
SEALED: dict[str, Trigger] = {
    "another table's snapshot": Trigger(
        lambda lab: lab.session().sql("SELECT SUM(age) AS n FROM visits").release(epsilon=0.25),
        _another_table,
    ),
    "no log of incidents": Trigger(failing("data:read", ValueError("SESAME")), _no_log),
    "no stack at the data": Trigger(failing("data:read", RecursionError("SESAME"))),
    "an error without words": Trigger(failing("data:read", WordlessError())),
    "an error that cannot be written": Trigger(failing("data:read", ValueError("\ud800 SESAME"))),
    "a failure at the data": Trigger(failing("data:read", ValueError("row 17 says SESAME"))),
    "no memory at the data": Trigger(failing("data:read", MemoryError())),
    "a failure at the noise": Trigger(failing("noise:drawn", KeyError("SESAME"))),
    "a coded failure at the noise": Trigger(
        failing("noise:drawn", sf.errors.UsageError("SF-N101", "SESAME"))
    ),
    "a failure of the disk at the noise": Trigger(
        failing("noise:drawn", OSError(28, "No space left", "SESAME"))
    ),
    "a failure before the answer is kept": Trigger(failing("release:begun", RuntimeError("SESAME"))),
    "a failure while the answer is kept": Trigger(failing("release:written", RecursionError("SESAME"))),
    "a full disk after the data": Trigger(full_after("data:read")),
    "a full disk after the noise": Trigger(full_after("noise:drawn")),
    "a full disk while the answer is kept": Trigger(full_after("release:written")),
}
UNREAD = "SF-C221  The rows of this table cannot be reached now, so nothing was read."
SENTENCE = "SF-X901  The question was charged and could not be answered."

TRIGGERS: dict[str, Trigger] = {
    **{name: sql(text) for name, text in QUESTIONS.items()},
    **{name: count(**spend) for name, spend in SPENDS.items()},
    **CALLS,
    **LEDGERS,
    **OUT_OF_REACH,
    **{name: Trigger(each.act, each.harm, "a quarter") for name, each in SEALED.items()},
}


# ---- five labs ---------------------------------------------------------------------------------------------


def rows(odd: list[tuple[Any, ...]]) -> pa.Table:
    known = [(f"p{n % 7}", 30.0 + n, "AB"[n % 2], n % 2, n, "n") for n in range(20)]
    patient, age, ward, flag, place, name = zip(*known, *odd, strict=True)
    return pa.table(
        {
            "patient_id": patient,
            "age": pa.array(age, pa.float64()),
            "ward": ward,
            "flag": flag,
            "x": place,
            "y": place,
            "name": name,
        }
    )


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folders = []
    for name, odd in ODD.items():
        lab = sf.create(tmp_path_factory.mktemp(name) / "lab")
        unit = sf.Unit("patient_id", max_rows=2)
        lab.register("visits", rows(odd), unit=unit, columns=COLUMNS, budget=sf.Budget(epsilon=1))
        lab.register("plain", rows(odd), unit=unit)
        lab.ledger.close()
        folders.append(lab.folder)
    return folders


def told(problem: SfumatoError) -> str:
    """All of it, in every form; only the incident's number may differ."""
    forms = (type(problem).__name__, problem.exit_code, problem, problem._repr_html_(), problem.to_dict())
    return re.sub(r"\b[0-9a-f]{16}\b", "INCIDENT", "\n".join(map(str, forms)))


def copy_lab(original: Path, folder: Path) -> None:
    """A copy is refused until it is accepted, since it would be a second budget."""
    shutil.copytree(original, folder)
    accept_ledger(folder / "ledger.sqlite", unproven=True)


def pulled(trigger: Trigger, original: Path, folder: Path) -> tuple[str, str | None]:
    """What was said, and what was spent, in a copy of the lab."""
    copy_lab(original, folder)
    if trigger.harm is not None:
        trigger.harm(folder)
    try:
        lab = sf.open(folder)
        trigger.act(lab)
    except SfumatoError as problem:
        return told(problem), None if trigger.charged is None else _spent(original, folder)
    pytest.fail("nothing went wrong")


def _spent(original: Path, folder: Path) -> str:
    """Read by a fresh ledger, which verifies all of itself first."""
    (folder / "catalog.json").write_bytes((original / "catalog.json").read_bytes())
    lab = sf.open(folder)
    try:
        return _spent_now(lab)
    finally:
        lab.ledger.close()


def _spent_now(lab: sf.Lab) -> str:
    pure = lab.ledger.read_spent(PEOPLE).pure
    assert pure is not None
    return {0: "nothing", 250_000_000_000: "a quarter"}[pure]


REFUSED = {
    name
    for name, each in TRIGGERS.items()
    if name in {*QUESTIONS, *SPENDS, *CALLS} and each.harm is None and each.charged == "nothing"
}
"""Triggers that are refused before the charge and leave the lab as it is, so they share one copy of it."""


@pytest.fixture(scope="module")
def shared_labs(originals: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[sf.Lab]]:
    """One open copy of each lab. In the end a fresh ledger must still say that nothing is spent."""
    folders = [tmp_path_factory.mktemp("shared") / "lab" for _ in originals]
    for original, folder in zip(originals, folders, strict=True):
        copy_lab(original, folder)
    labs = [sf.open(folder) for folder in folders]
    yield labs
    for lab in labs:
        lab.ledger.close()
    spent = [_spent(original, folder) for original, folder in zip(originals, folders, strict=True)]
    assert spent == ["nothing"] * len(labs)


def refused(trigger: Trigger, lab: sf.Lab) -> tuple[str, str]:
    """Return what was said, and what is spent afterwards."""
    try:
        trigger.act(lab)
    except SfumatoError as problem:
        return told(problem), _spent_now(lab)
    pytest.fail("nothing went wrong")


@pytest.mark.parametrize("name", [each for each in TRIGGERS if each in REFUSED])
def test_neighbours_hear_the_same_refusal(name: str, shared_labs: list[sf.Lab]) -> None:
    heard = [refused(TRIGGERS[name], lab) for lab in shared_labs]
    assert set(heard) == {heard[0]}
    assert heard[0][1] == "nothing"
    assert "SESAME" not in heard[0][0]
    assert str(shared_labs[0].folder.parent.parent) not in heard[0][0]


@pytest.mark.parametrize("name", [each for each in TRIGGERS if each not in REFUSED])
def test_neighbours_hear_the_same(name: str, originals: list[Path], tmp_path: Path) -> None:
    trigger = TRIGGERS[name]
    heard = [pulled(trigger, each, tmp_path / str(place)) for place, each in enumerate(originals)]
    assert set(heard) == {heard[0]}
    assert heard[0][1] == trigger.charged
    assert "SESAME" not in heard[0][0]
    assert str(tmp_path) not in heard[0][0]
    if name in SEALED:
        assert heard[0][0].startswith(f"SealedError\n1\n{SENTENCE}\n")
    if name in OUT_OF_REACH:
        assert UNREAD in heard[0][0]


def test_a_failure_that_counts_people_would_be_heard(originals: list[Path], tmp_path: Path) -> None:
    def telling(lab: sf.Lab) -> None:
        quote = lab.session().sql("SELECT COUNT(*) AS n FROM visits").quote(epsilon=0.25)
        raise sf.errors.UsageError(
            "SF-N101", f"There are {lab.engine.run(quote.plan.steps[0].program)} rows."
        )

    heard = {pulled(Trigger(telling), each, tmp_path / str(at)) for at, each in enumerate(originals)}
    assert len(heard) == 2  # one person has two rows of theirs, or none


@pytest.mark.parametrize("row", ["1 / (age - 109) > 0", "CAST(x * 1e9 AS BIGINT) % (age - 109) = 0"])
def test_rows_that_cannot_be_computed_are_no_error(originals: list[Path], tmp_path: Path, row: str) -> None:
    """One person's value divides by zero: it counts as missing, and nothing else is heard of it."""
    for place, original in enumerate(originals):
        folder = tmp_path / str(place)
        copy_lab(original, folder)
        release = (
            sf.open(folder)
            .session()
            .sql(f"SELECT COUNT(*) AS n FROM visits WHERE {row}")
            .release(epsilon=0.01)
        )
        assert release.to_arrow().num_rows == 1


def test_there_are_enough_triggers() -> None:
    assert len(TRIGGERS) >= 80
    assert len(SEALED) >= 15


@pytest.mark.parametrize("form", ["text", "json"])
def test_neighbours_hear_the_same_on_the_command_line(
    originals: list[Path], tmp_path: Path, form: str
) -> None:
    """Standard output, standard error and the exit code."""
    gc.collect()  # what other tests left may warn when it goes, which is not about these questions
    heard = []
    for place, original in enumerate(originals):
        folder = tmp_path / str(place)
        copy_lab(original, folder)
        heard.append([_typed(folder, text, form) for text in QUESTIONS.values() if "\ud800" not in text])
    for each in heard:
        assert each == heard[0]
    assert {code for code, _ in heard[0]} == {4}


@pytest.mark.parametrize("name", ["a snapshot gone", "a snapshot overwritten", "a snapshot garbled"])
def test_a_lost_snapshot_is_the_same_on_the_command_line(
    name: str, originals: list[Path], tmp_path: Path
) -> None:
    heard = []
    for place, original in enumerate(originals):
        folder = tmp_path / str(place)
        copy_lab(original, folder)
        harm = OUT_OF_REACH[name].harm
        assert harm is not None
        harm(folder)
        heard.append(_typed(folder, "SELECT COUNT(*) FROM visits", "json"))
    assert all(each == heard[0] for each in heard)
    assert heard[0][0] == 1
    assert json.loads(heard[0][1])["code"] == "SF-C221"


def _typed(folder: Path, text: str, form: str) -> tuple[int, str]:
    typed = ["ask", text, "--lab", str(folder), "--epsilon", "0.01", *(["--json"] if form == "json" else [])]
    result = CliRunner().invoke(main, typed)
    said = re.sub(r"\b[0-9a-f]{16}\b", "INCIDENT", result.stdout + result.stderr)
    return result.exit_code, said


# ---- what a failure leaves behind --------------------------------------------------------------------------


def test_a_failure_after_the_charge_shows_nothing_but_a_number(
    originals: list[Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    copy_lab(originals[1], tmp_path / "lab")
    lab = sf.open(tmp_path / "lab")
    with pytest.raises(SealedError) as sealed:
        failing("noise:drawn", ValueError("row 17 says SESAME"))(lab)
    assert sealed.value.__context__ is None
    assert sealed.value.__cause__ is None
    assert "SESAME" not in "".join(capfd.readouterr())
    held = [
        value
        for frame in _frames(sealed.value)
        for name, value in frame.items()
        if name in {"exact", "noisy"}
    ]
    assert held == []
    log = lab.folder / "incidents.log"
    assert sealed.value.facts["incident"] in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


def _frames(error: BaseException) -> list[dict[str, object]]:
    found, traceback = [], error.__traceback__
    while traceback:
        found.append(traceback.tb_frame.f_locals)
        traceback = traceback.tb_next
    return found
