"""Feeds of a server: released answers under names, whose rows are fetched when they are needed."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

from sfumato.lab.feeds.feed import Feed, FeedCard
from sfumato.lab.remote.jobs import read_parquet

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sfumato.lab.remote.connection import Connection


def read_feed(said: Mapping[str, Any], connection: Connection) -> Feed:
    """Return a feed as the server describes it."""
    card = FeedCard.from_dict({each.name: said[each.name] for each in fields(FeedCard)})
    return Feed(card, said["digest"], partial(_fetch_rows, connection, f"{said['path']}.parquet"))


def _fetch_rows(connection: Connection, path: str) -> pa.Table:
    return read_parquet(connection.get(path).body).replace_schema_metadata(None)
