"""A publication package: the answer with all that a reader needs to judge it, in a folder or a zip file."""

from __future__ import annotations

import io
import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.curator.answers.release import Release
from sfumato.curator.payer import find_kept, population_account
from sfumato.errors import PolicyError, SfumatoError, UsageError
from sfumato.files.durable import replace_file
from sfumato.lab.publications.published import Published
from sfumato.lab.query import Query
from sfumato.lab.synthetic.published_table import PublishedTable
from sfumato.lab.work.cards import (
    LedgerCharge,
    PublicationFacts,
    escape_markup,
    make_card,
    write_card,
    write_methods,
)
from sfumato.ledger.chain import read_body
from sfumato.privacy.events import from_dict
from sfumato.privacy.graph_units import Edge, Node
from sfumato.privacy.units import Unit

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.payer import LabAccess, Spending
    from sfumato.ledger import Ledger

PROOFS = "docs/proofs/"
_PLACE = re.compile(r"(https?://[\w.-]+(:\d+)?(/[\w./~%@-]*)?|/?[\w.~%@-][\w./~%@-]*)", re.ASCII)
"""Where proof notes may lie: no text that is markup, and no address of another kind."""
"""Where proof notes lie in the source of sfumato."""
_README = """# {title}

- `methods.md`: a paragraph for a methods section
- `card.json`, `card.md`: a card for a registry of deployments
- `answer.*`: what was released
- `receipt-*.json`: what the ledger says; `sfumato ledger check-receipt FILE` compares one with the ledger

Everything here was declared in public or released with differential privacy. Nothing was read again for it.
"""


@dataclass(frozen=True, slots=True)
class PackageSource:
    """What goes into a package, whichever kind of publication it is made of."""

    title: str
    what: str
    entries: tuple[int, ...]
    """Entries of the ledger that paid for it."""
    answer: pa.Table
    details: dict[str, Any]
    """The answer with its intervals, ready for JSON."""
    tables: tuple[Table, ...]
    named: str
    """Name of the table that it is about."""
    not_covered: tuple[str, ...] = ()


def make_package(
    lab: LabAccess, publication: Any, target: str | Path, title: str, contact: str, proofs: str
) -> Path:
    """Write a package to a new folder, or to a new file that ends in .zip. Return where it is."""
    path = _check_target(target)
    source = read_source(lab, publication, title)
    files = build_files(lab, source, contact, proofs)
    if path.suffix == ".zip":
        replace_file(path, zip_files(files))
        return path
    path.mkdir(exist_ok=True)
    for name, content in files.items():
        replace_file(path / name, content)
    return path


def build_files(lab: LabAccess, source: PackageSource, contact: str, proofs: str) -> dict[str, bytes]:
    """Return the files of a package by name."""
    folder = _require_place(proofs)
    found = find_charges(lab.ledger, source.entries)
    answers = {"answer.csv": _write_csv(source.answer), "answer.parquet": _write_parquet(source.answer)}
    answers["answer.json"] = _write_json(source.details)
    about = next(iter(source.tables), None)
    population = found[0].population if found else None
    account = None if population is None else population_account(population)
    facts = PublicationFacts(
        title=source.title,
        what=source.what,
        files=tuple(answers),
        table=source.named,
        protects=_describe_unit(about, population),
        neighbours=None if about is None or not found else about.neighbours,
        budget=None if account is None else lab.ledger.read_budget(account),
        charges=found,
        not_covered=source.not_covered,
        who=", ".join(dict.fromkeys(each.analyst or "the steward" for each in found)) or "the steward",
        contact=_one_line(contact)[:300],
        proofs=folder,
    )
    card = make_card(facts)
    receipts = {f"receipt-{each.entry}.json": _write_json(_make_receipt(lab.ledger, each)) for each in found}
    return {
        "README.md": _README.format(title=escape_markup(_one_line(source.title))).encode(),
        "methods.md": f"{write_methods(facts)}\n".encode(),
        "card.json": _write_json(card),
        "card.md": write_card(card).encode(),
        **answers,
        **receipts,
    }


def read_source(lab: LabAccess, publication: Any, title: str = "") -> PackageSource:
    """Return what is to be packed: an answer, a published question, or a published synthetic table."""
    if isinstance(publication, Published):
        return _read_release(lab, publication.read(), title or publication.text)
    if isinstance(publication, Release):
        return _read_release(lab, publication, title)
    if isinstance(publication, PublishedTable):
        return _read_synthetic(lab, publication, title)
    raise UsageError(
        "SF-E260",
        "Only an answer, a published question or a published synthetic table makes a package.",
        got=type(publication).__name__,
        try_='lab.package(lab.publish("SELECT …", epsilon=0.1), "readmissions.zip")',
    )


def find_answer(question: Any, spending: Spending) -> Release:
    """Return the kept answer to a question at a spend. Nothing here can charge: it is found, or refused."""
    if not isinstance(question, Query):
        raise UsageError(
            "SF-N117",
            "Only the answer to a single question is found again for a package.",
            try_="lab.package(release, target), with the release",
        )
    plan = question.plan(spending)
    kept = find_kept(question.payer.lab.ledger, plan)
    if kept is None:
        raise PolicyError(
            "SF-W168",
            "This question was not answered yet at this spend, and a package never charges.",
            why="or the table has a new snapshot since",
            try_="ask it first, at the same spend",
        )
    return Release(plan, kept)


def find_charges(ledger: Ledger, entries: Iterable[int]) -> tuple[LedgerCharge, ...]:
    """Return these charges as the ledger has them, with the hash of the entry that seals each answer."""
    wanted, charges, heads = set(entries), {}, {}
    for entry in ledger.read_entries():
        if entry.kind in ("charge", "reserve") and entry.seq in wanted:
            charges[entry.seq], heads[entry.seq] = read_body(entry.body), entry.hash
        elif entry.kind == "release":
            answered = read_body(entry.body)["charge"]
            heads |= {answered: entry.hash} if answered in wanted else {}
    return tuple(_read_charge(seq, heads[seq], fields) for seq, fields in charges.items())


def zip_files(files: dict[str, bytes]) -> bytes:
    """Return a zip file whose bytes depend on the files alone, and not on the clock."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _require_place(proofs: str) -> str:
    """Return an address or folder with a slash behind it; a card is Markdown, and no other text goes in."""
    if len(proofs) > 300 or not _PLACE.fullmatch(proofs):
        raise UsageError(
            "SF-C201",
            "Proof notes are named by the address of a web page or by a folder.",
            try_='proofs="https://example.org/proofs/"',
        )
    return proofs if proofs.endswith("/") else f"{proofs}/"


def _read_release(lab: LabAccess, release: Release, title: str) -> PackageSource:
    # Answers that were refined have a charge for each round, and a receipt for the last alone.
    entries = release.entries
    tables = tuple(dict.fromkeys(table.name for table in release.tables))
    found = {table.name: table for table in release.tables}
    asked = [each.question.removesuffix(" (refined)") for each in find_charges(lab.ledger, entries)]
    named = title or "; ".join(dict.fromkeys(asked)) or "an answer"
    return PackageSource(
        _one_line(named)[:300],
        "an answer",
        tuple(sorted(set(entries))),
        release.to_arrow(),
        release.to_dict(),
        tuple(each for each in found.values() if not each.is_public) or tuple(found.values()),
        ", ".join(tables),
        tuple(dict.fromkeys(release.caveats)),
    )


def _read_synthetic(lab: LabAccess, published: PublishedTable, title: str) -> PackageSource:
    request = published.card.get("request")
    entries = [] if request is None else _find_requests(lab.ledger, {request})[:1]
    about = lab.contents.tables.get(published.card["table"])
    what = "a synthetic table" if published.kind == "table" else "a stand-in table for rehearsals"
    return PackageSource(
        _one_line(title or published.name)[:300],
        what,
        tuple(entries),
        published.read(),
        dict(published.card),
        () if about is None else (about,),
        published.card["table"],
    )


def _find_requests(ledger: Ledger, requests: set[str]) -> list[int]:
    """Return the charges for these requests that were answered, oldest first."""
    asked, answered = {}, set()
    for entry in ledger.read_entries():
        if entry.kind in ("charge", "reserve"):
            asked[entry.seq] = read_body(entry.body)["request"]
        elif entry.kind == "release":
            answered.add(read_body(entry.body)["charge"])
    return [seq for seq, request in asked.items() if request in requests and seq in answered]


def _read_charge(seq: int, head: str, fields: dict[str, Any]) -> LedgerCharge:
    about = fields["about"]
    population = next(name for name in fields["accounts"] if name.startswith("population:"))
    return LedgerCharge(
        seq,
        head,
        fields.get("at", "")[:10] or None,  # older ledgers have the time to the second
        about.get("analyst", ""),
        about.get("spend", ""),
        about.get("question", ""),
        from_dict(about["event"]),
        population.partition(":")[2],
    )


def _make_receipt(ledger: Ledger, charge: LedgerCharge) -> dict[str, Any]:
    """Return the receipt of a charge, signed where the ledger has a key and the extra is installed."""
    receipt: dict[str, Any] = {"entry": charge.entry, "head": charge.head, "unit": charge.population}
    number = ledger.find_entry(charge.head)
    try:
        return receipt | {"signed": ledger.sign_receipt(number).to_dict()}
    except SfumatoError:
        return receipt


def _describe_unit(table: Table | None, population: str | None) -> str:
    """Return the unit of protection in words."""
    unit = None if table is None else table.protects
    if isinstance(unit, Unit) and not unit.public:
        if unit.column is None:
            return "one row"
        most = (
            f"at most {unit.max_rows} of its rows are used"
            if unit.max_rows != 1
            else "one of its rows is used"
        )
        return f"one '{unit.column}' with all its rows ({most})"
    if isinstance(unit, Node | Edge):
        return "one node with all its edges" if isinstance(unit, Node) else "one edge"
    return f"one unit of '{population}'" if population is not None else "no one: nothing was read"


def _check_target(target: str | Path) -> Path:
    """Return where a package can be written, or refuse before anything is."""
    path = Path(target)
    vacant = not path.exists() or (path.suffix != ".zip" and path.is_dir() and not any(path.iterdir()))
    if not path.name or not vacant or not path.parent.is_dir():
        raise UsageError(
            "SF-U102",
            "A package is written to a new folder, or a new .zip file, in a folder that exists.",
            got=str(target)[:200],
            try_='"readmissions.zip"',
        )
    return path


def _write_csv(table: pa.Table) -> bytes:
    from pyarrow import csv

    buffer = io.BytesIO()
    csv.write_csv(table, buffer)
    return buffer.getvalue()


def _write_parquet(table: pa.Table) -> bytes:
    from pyarrow import parquet

    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    return buffer.getvalue()


def _write_json(value: Any) -> bytes:
    return f"{json.dumps(value, indent=1, ensure_ascii=False, default=str)}\n".encode()


def _one_line(text: str) -> str:
    return " ".join(text.split())
