"""Published answers in a real PostgreSQL: replaced as a whole, and read by a role that only reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from published_clinic import BY_WARD, make_clinic
from sfumato.cli.main import main
from sfumato.errors import PolicyError, UsageError
from sfumato.lab.lab import Lab
from sfumato.lab.publications.public_tables import find_public_table


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """One for all tests. Each that publishes does so at a price of its own, so that the answer is another."""
    return make_clinic(tmp_path_factory.mktemp("mirror") / "clinic")


@pytest.fixture
def database(postgres: str) -> Iterator[psycopg.Connection]:
    """The steward's connection; what the test made is gone afterwards."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        yield connection
        for schema in ("published", "other", 'a"b'):
            connection.execute(f"DROP SCHEMA IF EXISTS {quoted(schema)} CASCADE")
        connection.execute("DROP ROLE IF EXISTS bi")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_a_mirror_holds_what_was_published(lab: Lab, postgres: str, database: psycopg.Connection) -> None:
    before = lab.verify()
    report = lab.mirror(f"{postgres}#published").to_dict()
    assert report == {
        "schema": "published",
        "written": ["by_ward", "published_2"],
        "unchanged": [],
        "removed": [],
    }
    rows = database.execute("SELECT * FROM published.by_ward").fetchall()
    table = find_public_table(lab, "by_ward")
    assert rows == [tuple(row.values()) for row in table.rows.to_pylist()]
    comment = database.execute("SELECT obj_description('published.by_ward'::regclass)").fetchone()[0]
    assert BY_WARD in comment
    assert table.head in comment
    types = (
        "SELECT attname, format_type(atttypid, -1) FROM pg_attribute "
        "WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum"
    )
    assert database.execute(types, ["published.published_2"]).fetchall()[:2] == [
        ("day", "date"),
        ("n", "bigint"),
    ]
    assert lab.verify() == before


def test_what_has_not_changed_is_left_alone(lab: Lab, postgres: str, database: psycopg.Connection) -> None:
    lab.mirror(f"{postgres}#published")
    written = "SELECT DISTINCT xmin::text FROM published.by_ward"
    first = database.execute(written).fetchall()
    assert lab.mirror(f"{postgres}#published").to_dict()["unchanged"] == ["by_ward", "published_2"]
    assert database.execute(written).fetchall() == first
    database.execute("CREATE VIEW public.on_a_mirror AS SELECT n FROM published.by_ward")
    lab.publish(BY_WARD, epsilon=0.21, name="by_ward")
    report = lab.mirror(f"{postgres}#published").to_dict()
    assert (report["written"], report["unchanged"]) == (["by_ward"], ["published_2"])
    assert database.execute(written).fetchall() != first
    database.execute("DROP VIEW public.on_a_mirror")


def test_the_reader_can_read_and_nothing_else(lab: Lab, postgres: str, database: psycopg.Connection) -> None:
    lab.mirror(f"{postgres}#published", reader="bi")
    lab.publish(BY_WARD, epsilon=0.22, name="by_ward")
    lab.mirror(f"{postgres}#published", reader="bi")
    database.execute("SET ROLE bi")
    assert database.execute("SELECT count(*) FROM published.by_ward").fetchone() == (3,)
    for change in (
        "DELETE FROM published.by_ward",
        "INSERT INTO published.by_ward (n) VALUES (1)",
        "UPDATE published.by_ward SET n = 1",
        "TRUNCATE published.by_ward",
        "DROP TABLE published.by_ward",
        "CREATE TABLE published.mine (n int)",
        "COMMENT ON TABLE published.by_ward IS 'mine'",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            database.execute(change)
    database.execute("RESET ROLE")
    database.execute("DROP OWNED BY bi")


def test_a_schema_of_others_is_refused(
    lab: Lab, postgres: str, database: psycopg.Connection, tmp_path: Path
) -> None:
    database.execute("CREATE SCHEMA other")
    database.execute("CREATE TABLE other.precious AS SELECT 1 AS n")
    for address in (f"{postgres}#other", f"{postgres}#public", f"{postgres}#pg_catalog"):
        with pytest.raises(PolicyError, match="SF-C110"):
            lab.mirror(address)
    assert database.execute("SELECT n FROM other.precious").fetchone() == (1,)
    lab.mirror(f"{postgres}#published")
    with pytest.raises(PolicyError, match="SF-C110"):  # a mirror of another lab
        make_clinic(tmp_path / "second").mirror(f"{postgres}#published")
    lab.mirror(f"{postgres}#a%22b")
    assert database.execute('SELECT count(*) FROM "a""b".by_ward').fetchone() == (3,)


def test_a_failure_leaves_the_old_tables(lab: Lab, postgres: str, database: psycopg.Connection) -> None:
    lab.mirror(f"{postgres}#published")
    database.execute("CREATE TABLE published.stale AS SELECT 1 AS n")
    database.execute("CREATE VIEW other_view AS SELECT n FROM published.stale")
    lab.publish(BY_WARD, epsilon=0.23, name="by_ward")
    before = database.execute("SELECT * FROM published.by_ward").fetchall()
    with pytest.raises(PolicyError, match="SF-C209"):
        lab.mirror(f"{postgres}#published")  # would drop what the view needs
    assert database.execute("SELECT * FROM published.by_ward").fetchall() == before
    database.execute("DROP VIEW other_view")


def test_wrong_addresses(lab: Lab, postgres: str, database: psycopg.Connection) -> None:
    for address in ("", "published", "http://x#y", None, 3):
        with pytest.raises(UsageError, match="SF-C201"):
            lab.mirror(address)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="SF-C209"):
        lab.mirror("postgresql://nobody@/none?host=/nowhere#published")
    database.execute("CREATE ROLE bi LOGIN")
    with pytest.raises(PolicyError, match="SF-C210"):
        lab.mirror(postgres.replace("postgres@", "bi@") + "#published")


def test_the_command(lab: Lab, postgres: str, database: psycopg.Connection) -> None:
    options = ["mirror", f"{postgres}#published", "--lab", str(lab.folder)]
    done = CliRunner().invoke(main, [*options, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["written"] == ["by_ward", "published_2"]
    assert "unchanged: by_ward, published_2" in CliRunner().invoke(main, options).output
