"""Preparing: rows with a unit, gridded and coded, at most `max_rows` a unit.

The relations of a snapshot are those that engines/duckdb/prepare.py describes, with the same integers and
texts, the same units by their persons, blocks and places, and so the same rows kept. Unit codes are numbers
in no order. The source is read once, by the steward's own session: a frame may give other rows every time.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from sfumato.engines.ingest import (
    EXACT_BELOW,
    are_texts,
    derive_key,
    list_codes,
    read_survey,
    rounded_identifiers,
    write_survey,
    write_unit_survey,
    write_varying_survey,
)
from sfumato.engines.snapshot import StoredCodes, StoredText, find_reach
from sfumato.engines.spark.places import hash_name
from sfumato.engines.spark.sources import Kind, scan_source
from sfumato.engines.spark.spelling import respell_query
from sfumato.engines.spark.stored import LAYERS, write_as_text
from sfumato.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sfumato.engines.snapshot import Preparation, SourceSurvey, StoredColumn
    from sfumato.engines.spark.places import SnapshotPlace


def build_snapshot(
    frame: DataFrame,
    preparation: Preparation,
    session: SparkSession,
    place: SnapshotPlace,
    snapshot: str,
    survey: bool = False,
) -> SourceSurvey | None:
    """Write the snapshot of a frame: whole and durable, or not at all. Return a survey if asked.

    `session` is our own.
    """
    unit = [] if preparation.unit is None else [preparation.unit]
    source, kinds = scan_source(frame, [*unit, *(column.name for column in preparation.columns)])
    lists = {i: f"list{i}_{secrets.token_hex(8)}" for i in _listed(preparation)}
    gridded = _gridded(preparation, kinds, lists)  # refuses kinds that do not fit before anything is read
    place.begin(session, snapshot)
    try:
        _fill_keys(session, preparation, snapshot)
        # A frame is computed anew by each query, and could differ from one to the next.
        _read(source, place, snapshot)
        _fill_lists(session, preparation, lists)
        relation = place.read(session, snapshot, "made_source")
        identifiers = _identifiers(preparation, kinds).format(source=relation)
        _refuse_rounded_identifiers(session, preparation, kinds, identifiers)
        found = _survey(session, preparation, kinds, lists, relation) if survey else None
        _keep(session, preparation, identifiers, gridded.format(source=relation), place, snapshot)
        place.finish(session, snapshot, _description(preparation))
        return found
    except BaseException:
        place.erase(session, snapshot)
        raise
    finally:
        for view in (_name_keys(snapshot), *lists.values()):
            session.catalog.dropTempView(view)


def survey_source(
    frame: DataFrame, preparation: Preparation, session: SparkSession, place: SnapshotPlace
) -> SourceSurvey:
    """Return exact counts of what a declaration does to a frame. What is read for it is erased again."""
    unit = [] if preparation.unit is None else [preparation.unit]
    source, kinds = scan_source(frame, [*unit, *(column.name for column in preparation.columns)])
    lists = {i: f"list{i}_{secrets.token_hex(8)}" for i in _listed(preparation)}
    _layers(preparation, kinds, lists)  # refuses kinds that do not fit before anything is read
    snapshot = f"survey_{secrets.token_hex(8)}"
    place.begin(session, snapshot)
    try:
        _read(source, place, snapshot)
        _fill_lists(session, preparation, lists)
        return _survey(session, preparation, kinds, lists, place.read(session, snapshot, "made_source"))
    finally:
        place.erase(session, snapshot)
        for view in lists.values():
            session.catalog.dropTempView(view)


def _survey(
    session: SparkSession,
    preparation: Preparation,
    kinds: tuple[Kind, ...],
    lists: dict[int, str],
    relation: str,
) -> SourceSurvey:
    """Count what the declaration does to the rows, by the layers that they are stored by."""
    floats = {
        i for i, kind in enumerate(kinds[len(kinds) - len(preparation.columns) :]) if kind is Kind.FLOAT
    }
    counts = write_survey(preparation, "DOUBLE", floats)
    layers = _layers(preparation, kinds, lists, marked=True).format(source=relation)
    found = _fetch_counts(session, f"SELECT {counts} {layers}")
    if preparation.unit is None:
        return read_survey(preparation, found, None)
    units = write_unit_survey(preparation, _identifiers(preparation, kinds).format(source=relation))
    of_units = _fetch_counts(session, units)
    if not preparation.constant:
        return read_survey(preparation, found, of_units)
    stored = _gridded(preparation, kinds, lists).format(source=relation)
    varying = _fetch_counts(session, write_varying_survey(preparation, stored))
    return read_survey(preparation, found, of_units, varying)


def _fetch_counts(session: SparkSession, query: str) -> list[int | None]:
    (row,) = session.sql(respell_query(query)).collect()
    return list(row)


def _read(source: DataFrame, place: SnapshotPlace, snapshot: str) -> None:
    """Read the source as it is now."""
    from pyspark.errors import PySparkException

    try:
        place.write(snapshot, "made_source", source)
    except PySparkException:
        # Spark's own words may quote a value.
        raise UsageError(
            "SF-C204",
            "The source cannot be read.",
            why="Spark fails on its files or on some row, or may not write where snapshots are kept",
            try_="df.count(), which shows what Spark says",
        ) from None


# ---- reading: every value made total, by rules that look at one row ----------------------------------------


def _gridded(preparation: Preparation, kinds: tuple[Kind, ...], lists: dict[int, str]) -> str:
    """Write a SELECT over {source} in layers, so that what is used several times is computed once."""
    stored = [
        f"{LAYERS.store_column(column, _place(i, column))} AS c{i}"
        for i, column in enumerate(preparation.columns)
    ]
    small = ", ".join(f"list{i}" for i in lists)
    return f"""
        SELECT {f"/*+ BROADCAST({small}) */" if small else ""} {", ".join(["unit", *stored])}
        {_layers(preparation, kinds, lists)} WHERE unit <> ''"""


def _layers(
    preparation: Preparation, kinds: tuple[Kind, ...], lists: dict[int, str], marked: bool = False
) -> str:
    """Write where interpreted columns c0, … come from; if marked, n0, … say where the source has no value."""
    columns = preparation.columns
    first = 0 if preparation.unit is None else 1
    unit = "'every row'" if preparation.unit is None else write_as_text("s0", kinds[0])
    fields = [(i, column, kind) for i, (column, kind) in enumerate(zip(columns, kinds[first:], strict=False))]
    parsed = [f"{LAYERS.parse_column(column, f's{first + i}', kind)} AS c{i}" for i, column, kind in fields]
    interpreted = [f"{LAYERS.interpret_column(column, f'c{i}', kind)} AS c{i}" for i, column, kind in fields]
    if marked:
        parsed += [f"s{first + i} IS NULL AS n{i}" for i, _, _ in fields]
        interpreted += [f"n{i}" for i, _, _ in fields]
    joins = [f"LEFT JOIN {view} AS list{i} ON read.c{i} = list{i}.value" for i, view in lists.items()]
    return f"""
        FROM (
            SELECT {", ".join(["unit", *interpreted])}
            FROM (SELECT {", ".join([f"{unit} AS unit", *parsed])} FROM {{source}})) AS read
        {" ".join(joins)}"""  # noqa: S608


def _identifiers(preparation: Preparation, kinds: tuple[Kind, ...]) -> str:
    """Write a SELECT over {source} of the units alone, as `_gridded` has them."""
    unit = "'every row'" if preparation.unit is None else write_as_text("s0", kinds[0])
    return f"SELECT unit FROM (SELECT {unit} AS unit FROM {{source}}) WHERE unit <> ''"  # noqa: S608


def _place(i: int, column: StoredColumn) -> str:
    return f"list{i}.code" if isinstance(column, StoredCodes) else f"read.c{i}"


def _listed(preparation: Preparation) -> dict[int, StoredCodes]:
    return {i: column for i, column in enumerate(preparation.columns) if isinstance(column, StoredCodes)}


def _fill_lists(session: SparkSession, preparation: Preparation, lists: dict[int, str]) -> None:
    """Make the views from value to code, without texts that Spark cannot hold."""
    for i, codes in _listed(preparation).items():
        session.createDataFrame(_list(codes)).createOrReplaceTempView(lists[i])


def _fill_keys(session: SparkSession, preparation: Preparation, snapshot: str) -> None:
    """Make the view of keys that digests are made with.

    They are rows and not words, since Spark logs and shows the text and the plan of every query. Whoever has
    a key can find out which digest is whose.
    """
    import pyarrow

    person, secret = derive_key(preparation, "person"), derive_key(preparation, "unit")
    keys = {"person_key": [person], "secret_key": [secret], "drawn_key": [secrets.token_hex(16)]}
    session.createDataFrame(pyarrow.table(keys)).createOrReplaceTempView(_name_keys(snapshot))


def _name_keys(snapshot: str) -> str:
    return f"keys_{hash_name(snapshot)}"


def _list(codes: StoredCodes) -> Any:
    import pyarrow

    possible = {value: code for value, code in list_codes(codes).items() if _possible(value)}
    of_type = pyarrow.string() if are_texts(codes) else pyarrow.float64()
    columns = {"value": pyarrow.array(list(possible), of_type), "code": list(possible.values())}
    return pyarrow.table(columns)


def _possible(value: Any) -> bool:
    return not isinstance(value, str) or not any("\ud800" <= each <= "\udfff" for each in value)


def _refuse_rounded_identifiers(
    session: SparkSession, preparation: Preparation, kinds: tuple[Kind, ...], identifiers: str
) -> None:
    if preparation.unit is None or kinds[0] is not Kind.FLOAT:
        return
    large = f"SELECT 1 FROM ({identifiers}) WHERE abs(CAST(unit AS DOUBLE)) >= {EXACT_BELOW} LIMIT 1"  # noqa: S608
    if session.sql(respell_query(large)).toArrow().num_rows:
        raise rounded_identifiers(preparation.unit)


# ---- keeping: which rows of a unit, by a rule that looks at that unit --------------------------------------


def _keep(
    session: SparkSession,
    preparation: Preparation,
    identifiers: str,
    gridded: str,
    place: SnapshotPlace,
    snapshot: str,
) -> None:
    """Write the relations `rows` and, with a unit column, `units`."""
    keys = _name_keys(snapshot)
    if preparation.unit is None:
        place.write(snapshot, "rows", session.sql(respell_query(_every_row(preparation, gridded, keys))))
        return
    place.write(snapshot, "made_people", session.sql(respell_query(_people(identifiers, keys))))
    people = place.read(session, snapshot, "made_people")
    units = f"SELECT code AS unit, person, of_unit AS rows, block FROM {people}"  # noqa: S608  a name of ours
    rows = respell_query(_ranked(preparation, gridded, people))
    place.write(snapshot, "units", session.sql(units))
    place.write(snapshot, "rows", session.sql(rows))


def _every_row(preparation: Preparation, gridded: str, keys: str) -> str:
    """Make each row a unit. Its block is drawn pseudorandomly, with a key that is then forgotten."""
    names = _names(preparation)
    numbered = ", ".join(["monotonically_increasing_id() AS unit", *names])
    block = f"CAST({_unsigned(_digest('drawn_key'), 0, 2)} AS INT) AS block"
    return f"""
        SELECT /*+ BROADCAST({keys}) */ {", ".join(["unit", block, *names])}
        FROM (SELECT {numbered} FROM ({gridded})) CROSS JOIN {keys}"""  # noqa: S608


def _people(identifiers: str, keys: str) -> str:
    """Select each unit's rows, keyed digests, and a code whose order says nothing of the identifier."""
    return f"""
        SELECT unit, of_unit, unhex(person) AS person, monotonically_increasing_id() AS code,
            CAST({_unsigned("secret", 0, 2)} AS INT) AS block, {_unsigned("secret", 8, 8)} AS salt
        FROM (
            SELECT * FROM (
                SELECT /*+ BROADCAST({keys}) */ unit, of_unit,
                    {_digest("person_key")} AS person, {_digest("secret_key")} AS secret
                FROM (SELECT unit, count(*) AS of_unit FROM ({identifiers}) GROUP BY unit) CROSS JOIN {keys})
            DISTRIBUTE BY person SORT BY person)"""  # noqa: S608


def _digest(key: str) -> str:
    return f"md5({key} || ':' || unit)"


def _ranked(preparation: Preparation, gridded: str, people: str) -> str:
    """The first rows of each unit, in the order of digests. Rows with one digest are in the order of their
    columns, and rows alike in everything need no order.
    """
    names = _names(preparation)
    order = ", ".join(f"{name} NULLS LAST" for name in ["digest", *names])
    first_of = f"PARTITION BY code ORDER BY {order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    values = [
        f"first_value({name}) OVER ({first_of}) AS {name}" if column.name in preparation.constant else name
        for name, column in zip(names, preparation.columns, strict=True)
    ]
    ranked = ", ".join(["code", f"row_number() OVER ({first_of}) AS place", *values])
    return f"""
        SELECT {", ".join(_kept(preparation))}
        FROM (SELECT {ranked} FROM ({_digests(preparation, gridded, people)}))
        WHERE place <= {preparation.max_rows}"""  # noqa: S608


def _digests(preparation: Preparation, gridded: str, people: str) -> str:
    """Select every copy of a record with the md5 of salt, copy and record, read from its last byte."""
    names = _names(preparation)
    fields = [
        f"md5({n})" if isinstance(c, StoredText) else n
        for n, c in zip(names, preparation.columns, strict=True)
    ]
    written = [f"COALESCE(CAST({field} AS STRING), '')" for field in fields]
    hashed = " || ',' || ".join(["salt", "copy", *written])
    return f"""
        SELECT {", ".join(["code", *names])}, {_reversed("digest", 0, 16)} AS digest
        FROM (SELECT *, md5({hashed}) AS digest FROM ({_copies(preparation, gridded, people)}))"""  # noqa: S608


def _copies(preparation: Preparation, gridded: str, people: str) -> str:
    """Select rows with their unit's code and secret salt, and a number among equal rows of the unit.

    All rows of a unit are brought together once, for this and for the ranks.
    """
    chosen = ", ".join(["code", *_names(preparation)])
    return f"""
        SELECT *, CAST(row_number() OVER (PARTITION BY {chosen} ORDER BY code) AS STRING) AS copy
        FROM (
            SELECT {chosen}, salt FROM ({gridded}) JOIN (SELECT unit, code, salt FROM {people}) USING (unit)
            DISTRIBUTE BY code)"""  # noqa: S608


def _unsigned(digest: str, start: int, length: int) -> str:
    """Read some bytes of a digest as the digits of an integer, the first of them the least."""
    return f"conv({_reversed(digest, start, length)}, 16, 10)"


def _reversed(digest: str, start: int, length: int) -> str:
    places = reversed(range(start, start + length))
    return " || ".join(f"substr({digest}, {2 * place + 1}, 2)" for place in places)


def _kept(preparation: Preparation) -> list[str]:
    places = ["place"] if preparation.max_rows > 1 else []
    return ["code AS unit", *places, *_names(preparation)]


def _names(preparation: Preparation) -> list[str]:
    return [f"c{i}" for i in range(len(preparation.columns))]


def _description(preparation: Preparation) -> dict[str, Any]:
    """Return how the snapshot lies: the Layout of relations.py, without the places."""
    has_units = preparation.unit is not None
    return {
        "columns": {column.name: f"c{i}" for i, column in enumerate(preparation.columns)},
        "reaches": {
            column.name: find_reach(column)
            for column in preparation.columns
            if find_reach(column) is not None
        },
        "units": has_units,
        "places": has_units and preparation.max_rows > 1,
    }
