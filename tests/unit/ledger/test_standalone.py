"""The verifier that imports nothing of ours: it agrees with us on what holds, and on what does not."""

from __future__ import annotations

import io
import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.errors import LedgerError
from sfumato.ledger import Entry, replay_entries
from sfumato.ledger.chain import hash_entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.ledger import SqliteLedger

VERIFIER = Path(__file__).parents[3] / "tools" / "verify_ledger.py"

check = runpy.run_path(str(VERIFIER))["check_export"]


@pytest.fixture
def lines(filled: SqliteLedger) -> list[str]:
    exported = io.StringIO()
    filled.export(exported)
    return exported.getvalue().splitlines()


def run(path: Path, *receipts: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(VERIFIER), str(path), *map(str, receipts)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def forged(lines: list[str], change: Callable[[int, dict[str, Any]], object]) -> list[str]:
    """Each body changed, then everything numbered and hashed anew: only the story can give it away."""
    entries: list[Entry] = []
    for seq, old in enumerate(map(Entry.from_json, lines), start=1):
        fields = json.loads(old.body)
        change(seq, fields)
        body, prev = json.dumps(fields), entries[-1].hash if entries else "0" * 64
        entries.append(Entry(seq, old.kind, body, prev, hash_entry(seq, old.kind, body, prev)))
    return [entry.to_json() for entry in entries]


def both(lines: list[str]) -> str:
    """What the stand-alone verifier says, once ours was found to say as much."""
    said = str(check(lines, [], None))
    try:
        ours = str(replay_entries(map(Entry.from_json, lines)).summarize())
    except LedgerError:
        assert said.startswith("BROKEN at line ")
    else:
        assert said == ours
    return said


def test_it_is_short_and_stands_alone(lines: list[str], tmp_path: Path) -> None:
    assert len(VERIFIER.read_text().splitlines()) < 220
    export = tmp_path / "export.jsonl"
    export.write_text("\n".join(lines))
    done = run(export)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("7 entries hold, 2 of 3 charges answered, head ")


def test_it_finds_what_we_find(lines: list[str]) -> None:
    assert both(lines).startswith("7 entries")
    assert both(lines[:4]).startswith("4 entries")
    assert both([]).startswith("0 entries")


@pytest.mark.parametrize("place", range(7))
def test_every_entry_is_needed_once_and_in_its_place(lines: list[str], place: int) -> None:
    others = lines[:place] + lines[place + 1 :]
    if place < 6:
        assert "number does not follow" in both(others)
    assert "number does not follow" in both([*lines[: place + 1], *lines[place:]])
    moved = [*others[: (place + 3) % 7], lines[place], *others[(place + 3) % 7 :]]
    assert both(moved).startswith("BROKEN")


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        ({"caps": {"pure": 1}}, False),
        ({"caps": {"side": 1}}, False),
        ({"caps": {"pure": 0, "side": 0}}, True),
        ({"caps": {"pure": -1, "side": -1}}, True),
        ({"budget": {"side_share": "1/4"}}, False),
        ({"budget": {"delta": "0"}}, False),
    ],
)
def test_no_account_may_spend_more_than_its_budget(
    lines: list[str], change: dict[str, dict[str, Any]], holds: bool
) -> None:
    """Numbers of caps are added to what stands there, and those of budgets take its place."""

    def forge(seq: int, fields: dict[str, Any]) -> None:
        for name, amount in change.get("caps", {}).items() if "caps" in fields else ():
            fields["caps"][name] += amount
        if "caps" in fields:
            fields["budget"] |= change.get("budget", {})

    said = both(forged(lines, forge))
    assert ("its caps exceed its budget" in said) is not holds


def test_every_byte_that_matters_is_looked_at(lines: list[str]) -> None:
    """A character of each field exchanged for its neighbour, at every third place of one entry."""
    line = lines[2]
    for place in range(0, len(line), 3):
        changed = line[:place] + chr(ord(line[place]) ^ 1) + line[place + 1 :]
        assert both([*lines[:2], changed, *lines[3:]]).startswith("BROKEN at line 3")


def at(place: int, **change: Any) -> Callable[[int, dict[str, Any]], object]:
    return lambda seq, fields: fields.update(change) if seq == place else None


def cost(**change: Any) -> dict[str, Any]:
    return {"pure": 1, "renyi": [1] * 12, "side": 0} | change


STORIES = {
    "spends more than was left": at(7, cost=cost(pure=5 * 10**12, renyi=[10**15] * 12)),
    "side δ beyond its cap: spends more than was left": at(7, cost=cost(side=2**60)),
    "quota: spends more than was left": at(3, cost=cost(pure=2 * 10**12, renyi=[10**15] * 12)),
    "no pure ε under a pure quota: spends more": at(3, cost=cost(pure=None)),
    "numbers are malformed": at(7, cost=cost(side=-1)),
    "pure: numbers are malformed": at(7, cost=cost(pure=True)),
    "orders: numbers are malformed": at(7, cost=cost(renyi=[1] * 11)),
    "not in order": at(3, accounts=["quota:patient_id:ada", "population:patient_id"]),
    "nobody pays: not in order": at(3, accounts=[]),
    "twice: not in order": at(3, accounts=["population:patient_id"] * 2),
    "never opened": at(3, accounts=["population:other"]),
    "request is malformed": at(3, request="q"),
    "key was used before": at(5, key="key of first"),
    "never charged": at(4, charge=2),
    "later: never charged": at(4, charge=5),
    "true: never charged": at(4, charge=True),
    "second time": at(6, charge=3),
    "commitment is malformed": at(4, commitment="x"),
    "no proper name": at(1, account="population:a:b"),
    "long: no proper name": at(1, account="population:" + "a" * 200),
    "budget that was fixed": at(2, account="population:patient_id"),
    "a float: cannot be read": at(3, about={"epsilon": 0.1}),
    "not a number: cannot be read": at(3, about={"epsilon": float("nan")}),
    "a list for a key: cannot be read": at(3, key=[]),
    "missing: cannot be read": lambda seq, fields: fields.pop("key", None),
}


@pytest.mark.parametrize("story", STORIES)
def test_a_forged_story_is_refused(lines: list[str], story: str) -> None:
    assert story.split(": ")[-1] in both(forged(lines, STORIES[story]))


def test_a_story_retold_truthfully_holds(lines: list[str]) -> None:
    assert both(forged(lines, lambda seq, fields: None)).startswith("7 entries")


@pytest.mark.parametrize("line", ["", "[]", "3", "{}", '{"seq":1}', "[" * 100_000])
def test_what_is_no_entry_is_refused(lines: list[str], line: str) -> None:
    assert both([*lines, line]).startswith("BROKEN at line 8")


def test_a_receipt_tells_an_old_copy(lines: list[str], tmp_path: Path) -> None:
    receipt, export = tmp_path / "receipt.json", tmp_path / "export.jsonl"
    receipt.write_text(json.dumps({"receipt": {"entry": 5, "head": json.loads(lines[5])["hash"]}}))
    export.write_text("\n".join(lines))
    assert run(export, receipt).returncode == 0
    export.write_text("\n".join(lines[:5]))
    done = run(export, receipt)
    assert done.returncode == 1
    assert "old or another ledger" in done.stdout
