"""Feeds are copies of answers that were paid for: free to read, bound to their owner, and never a charge."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from feed_clinic import ADAS, BY_DAY, BY_WARD, make_clinic, make_visits
from sfumato.errors import PolicyError, UsageError
from sfumato.lab.feeds.kept import KeptLedger, open_kept_session
from sfumato.lab.feeds.listing import find_published_feed, find_released_feed, list_published_feeds
from sfumato.lab.feeds.naming import make_unique, simplify_name
from sfumato.lab.feeds.shelf import FeedShelf
from sfumato.lab.lab import Lab


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return make_clinic(tmp_path_factory.mktemp("feeds") / "clinic")


def test_publications_are_feeds_for_everyone(lab: Lab) -> None:
    feeds = {feed.name: feed for feed in list_published_feeds(lab)}
    assert sorted(feeds) == ["by_ward", "published_2"]
    table = feeds["by_ward"].to_arrow()
    columns = ["ward", "n", "n_low", "n_high", "cost", "cost_low", "cost_high"]
    assert table.column_names == columns
    assert [str(field.type) for field in table.schema] == ["string", "int64", *["double"] * 5]
    released = lab.session().sql(BY_WARD).release(epsilon=0.5)
    assert table.select(["ward", "n", "cost"]).equals(released.to_arrow())
    assert feeds["published_2"].card.question == BY_DAY


def test_a_feed_is_its_owners(lab: Lab) -> None:
    feed = find_released_feed(lab, "ada", "costly")
    assert feed.card.question == ADAS
    assert feed.path == "/feeds/released/costly"
    assert feed.to_arrow().column_names == ["ward", "n", "n_low", "n_high"]
    for owner in ("bob", None, "", "ada "):
        with pytest.raises(PolicyError, match="SF-F103"):
            find_released_feed(lab, owner, "costly")
    with pytest.raises(PolicyError, match="SF-F103"):
        find_published_feed(lab, "costly")
    assert [each.name for each in lab.session("ada").feeds()] == ["costly", "by_ward", "published_2"]


def test_reading_feeds_leaves_the_ledger_as_it_is(lab: Lab) -> None:
    before = lab.verify()
    for _ in range(50):
        assert len(lab.session("ada").feeds()) == 3
        find_released_feed(lab, "ada", "costly").to_arrow()
    assert lab.verify() == before


def test_a_later_answer_takes_the_place_of_a_name(tmp_path: Path) -> None:
    lab = make_clinic(tmp_path / "clinic")
    first = find_released_feed(lab, "ada", "costly")
    again = lab.session("ada").feed("costly", ADAS, epsilon=0.25)
    assert find_released_feed(lab, "ada", "costly").digest == again.digest != first.digest
    lab.publish(BY_WARD, epsilon=0.25, name="by_ward")
    assert [each.name for each in list_published_feeds(lab)] == ["by_ward", "published_2"]
    assert find_published_feed(lab, "by_ward").card.spend == {"epsilon": "1/4"}
    # Publishing the same once more gives the old publication its name.
    lab.publish(BY_DAY, epsilon=0.5, name="by_day")
    assert [each.name for each in list_published_feeds(lab)] == ["by_day", "by_ward"]


def test_a_feed_outlives_the_snapshot_that_it_is_about(tmp_path: Path) -> None:
    lab = make_clinic(tmp_path / "clinic")
    before = {each.name: each.to_arrow() for each in lab.session("ada").feeds()}
    lab.advance("visits", make_visits(rows=30))
    assert {each.name: each.to_arrow() for each in lab.session("ada").feeds()} == before


def test_the_file_is_private(lab: Lab) -> None:
    assert stat.S_IMODE(lab.feeds_file.stat().st_mode) == 0o600


def test_entries_name_feeds_that_have_no_name(lab: Lab) -> None:
    shelf = FeedShelf(lab.feeds_file)
    release = lab.session("bob").sql(ADAS).release(epsilon=0.5)  # what ada paid for
    feed = shelf.keep_answer("bob", release, ADAS)
    assert feed.name == f"entry_{release.receipt.entry}"
    assert shelf.keep_answer("bob", release, ADAS).name == feed.name
    renamed = lab.session("bob").sql(ADAS.replace(" n ", " m ")).release(epsilon=0.5)
    other = shelf.keep_answer("bob", renamed, ADAS.replace(" n ", " m "))
    assert other.name == f"{feed.name}_{other.digest[:8]}"
    assert shelf.remove_feed("bob", other.name)
    assert not shelf.remove_feed("bob", other.name)


def test_every_kind_of_answer_is_a_table(lab: Lab) -> None:
    shelf, session = FeedShelf(lab.feeds_file), lab.session()
    table = session.table("visits")
    asked = {
        "top": table.top("ward", k=2),
        "distance": table.distance("COUNT(*) >= 100"),
        "bounds": table.bounds("cost"),
        "union": session.sql(f"{ADAS} UNION ALL {ADAS.replace('100', '200')}"),
        "facts": session.sql("SHOW TABLES"),
        "declared": session.sql("SELECT DISTINCT ward FROM visits"),
    }
    found = {name: shelf.keep_answer(None, each.release(epsilon=0.1), name) for name, each in asked.items()}
    columns = {name: feed.to_arrow().column_names for name, feed in found.items()}
    assert columns["top"] == ["place", "value"]
    assert columns["distance"] == ["value", "value_low", "value_high"]
    assert columns["bounds"] == ["low", "high"]
    assert columns["union"] == ["ward", "n"]
    assert len(found["union"].card.entries) == 2
    assert columns["declared"] == ["ward"]
    model = object()
    with pytest.raises(PolicyError, match="SF-F104"):
        shelf.keep_answer(None, model, "a model")


@pytest.mark.parametrize("name", ["", "A", "1a", "a-b", "a.b", "ä", "../x", "a" * 61, "a\n", None, 3])
def test_names_are_plain_words_and_refused_before_the_charge(lab: Lab, name: object) -> None:
    before = lab.verify()
    with pytest.raises(UsageError, match="SF-F101"):
        lab.session("ada").feed(name, BY_WARD, epsilon=0.4)  # type: ignore[arg-type]
    if name is not None:
        with pytest.raises(UsageError, match="SF-F101"):
            lab.publish(BY_WARD, epsilon=0.4, name=name)  # type: ignore[call-overload]
    assert lab.verify() == before


def test_names_are_made_from_any_text() -> None:
    assert simplify_name("Visits (2026)") == "visits_2026"
    assert simplify_name("2026") == "t_2026"
    assert simplify_name("") == "t_"
    assert len(simplify_name("x" * 200)) == 60
    assert make_unique(["n", "N", "n", "m"]) == ["n", "N_2", "n_3", "m"]


# ---- a session that cannot charge --------------------------------------------------------------------------


def test_a_kept_session_replays_and_never_charges(lab: Lab) -> None:
    before = lab.verify()
    kept = open_kept_session(lab, "ada")
    assert kept.sql(ADAS).release(epsilon=0.5).receipt.replayed
    for sql, spend in (
        (ADAS, {"epsilon": 0.4}),
        (ADAS.replace("100", "101"), {"epsilon": 0.5}),
        (f"{ADAS} UNION ALL {ADAS}", {"epsilon": 0.3}),
        ("SELECT COUNT(*) AS n FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)", {"epsilon": 0.3}),
    ):
        with pytest.raises(PolicyError, match="SF-F106"):
            kept.sql(sql).release(**spend)
    with pytest.raises(PolicyError, match="SF-F106"):
        kept.oracle("visits", epsilon=0.3).mean("cost >= 5")
    for change in ("reserve", "release", "grant", "draw", "open_account", "note_snapshot"):
        with pytest.raises(PolicyError, match="SF-F106"):
            getattr(KeptLedger(lab.ledger), change)()
    assert lab.verify() == before


def test_a_kept_session_is_for_those_who_have_a_quota(lab: Lab) -> None:
    with pytest.raises(Exception, match=r"SF-B103|SF-L203"):
        open_kept_session(lab, "eve").sql(ADAS).release(epsilon=0.5)
