"""Which feeds there are: those of publications, which are for everyone, and those that an analyst keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.curator.catalog.publications import write_spend
from sfumato.errors import SfumatoError
from sfumato.lab.feeds.feed import PUBLISHED, SYNTHETIC, Feed, FeedCard
from sfumato.lab.feeds.naming import simplify_name
from sfumato.lab.feeds.shelf import FeedShelf, no_such_feed, normalize_text
from sfumato.lab.feeds.tabulate import digest_table, tabulate_answer
from sfumato.lab.published import Published, list_publications

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.curator.payer import LabAccess
    from sfumato.lab.synthetic.published_table import PublishedTable


def list_published_feeds(lab: LabAccess) -> tuple[Feed, ...]:
    """Return what everyone may read, by name; what cannot be read any more is left out."""
    named: dict[str, Published | PublishedTable] = {}
    for place, each in enumerate(list_publications(lab), start=1):
        number = f"published_{place}" if isinstance(each, Published) else f"synthetic_{each.card['number']}"
        named[number] = each
        called = each.publication.name if isinstance(each, Published) else simplify_name(each.name)
        if called is not None:
            named[called] = each  # the newest of a name has its address
            del named[number]
    found = []
    for name, each in sorted(named.items()):
        try:
            found.append(_make_feed(name, each))
        except SfumatoError:
            continue
    return tuple(found)


def find_published_feed(lab: LabAccess, name: str) -> Feed:
    """Return the feed of a publication, or refuse the name."""
    for feed in list_published_feeds(lab):
        if feed.name == name:
            return feed
    raise no_such_feed(name)


def list_released_feeds(lab: LabAccess, owner: str | None) -> tuple[Feed, ...]:
    """Return the feeds that an analyst keeps, or for None those of the steward."""
    return FeedShelf(lab.feeds_file).list_feeds(owner)


def find_released_feed(lab: LabAccess, owner: str | None, name: str) -> Feed:
    """Return a feed that an analyst keeps, or refuse the name."""
    found = FeedShelf(lab.feeds_file).find_feed(owner, name)
    if found is None:
        raise no_such_feed(name)
    return found


def _make_feed(name: str, published: Published | PublishedTable) -> Feed:
    """Return a publication as a feed. Its rows are read once: an answer that was published never changes."""
    key = _identify(published)
    if key not in _KNOWN:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.pop(next(iter(_KNOWN)), None)
        table = tabulate_answer(published.read())
        _KNOWN[key] = digest_table(table), table, _write_card(published)
    digest, table, card = _KNOWN[key]
    return Feed(replace(card, name=name), digest, lambda: table)


def _identify(published: Published | PublishedTable) -> tuple[Any, ...]:
    place = published.lab.feeds_file
    if isinstance(published, Published):
        return place, published.publication.key, published.text
    return place, published.path


def _write_card(published: Published | PublishedTable) -> FeedCard:
    if isinstance(published, Published):
        answer, spend = published.read(), write_spend(published.spend)
        notes = tuple(answer.to_dict()["bias"])
        receipt = answer.receipt
        text = normalize_text(published.text)
        return FeedCard("", PUBLISHED, None, text, (receipt.entry,), receipt.head, notes, spend)
    said = (
        f"Synthetic rows for '{published.card['table']}', published {published.day}: {published.card['cost']}"
    )
    return FeedCard("", SYNTHETIC, None, said, (), "")


_MOST_KNOWN = 256
_KNOWN: dict[tuple[Any, ...], tuple[str, pa.Table, FeedCard]] = {}
"""Tables of publications that were read, by lab and publication, so that a refresh costs no planning."""
