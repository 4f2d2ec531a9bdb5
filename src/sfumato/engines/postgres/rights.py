"""What a role must be allowed to do before a table is prepared, and the SQL that allows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.engines.postgres.sources import quote_name
from sfumato.errors import PolicyError

if TYPE_CHECKING:
    from psycopg import Connection

    from sfumato.engines.postgres.sources import Address


def require_rights(connection: Connection[Any], address: Address, schema: str) -> None:
    """Raise unless the role may read the table, have temporary ones, and have the lab's schema."""
    role, database = connection.execute("SELECT current_user, current_database()").fetchone() or ("", "")
    grants = {
        f"GRANT TEMPORARY ON DATABASE {quote_name(database)} TO {quote_name(role)};": _may(
            connection, "has_database_privilege(%s, 'TEMPORARY')", database
        ),
        f"GRANT USAGE ON SCHEMA {quote_name(address.schema)} TO {quote_name(role)};": _may(
            connection,
            "has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = %s",
            address.schema,
        ),
        f"GRANT SELECT ON {address.quoted} TO {quote_name(role)};": _may_select(connection, address),
        f"CREATE SCHEMA {quote_name(schema)} AUTHORIZATION {quote_name(role)};": _may_keep(
            connection, database, schema
        ),
    }
    # All at once, so that an owner is asked only once.
    missing = [sql for sql, allowed in grants.items() if not allowed]
    if missing:
        raise missing_rights(missing)


def missing_rights(grants: list[str]) -> PolicyError:
    """Return the refusal, with the SQL that an owner of the database would run."""
    return PolicyError(
        "SF-C210",
        "The role in the address may not prepare this table.",
        needed="to read the table, to have temporary tables, and a schema of its own for the snapshots",
        try_=" ".join(grants),
    )


def _may_select(connection: Connection[Any], address: Address) -> bool:
    """Return whether the role may read the table; one that is not there is another error's matter."""
    asked = (
        "has_any_column_privilege(pg_class.oid, 'SELECT') FROM pg_class "
        "JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = %s AND relname = %s"
    )
    return _may(connection, asked, address.schema, address.table)


def _may_keep(connection: Connection[Any], database: str, schema: str) -> bool:
    there = connection.execute(
        "SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = %s", [schema]
    ).fetchone()
    return _may(connection, "has_database_privilege(%s, 'CREATE')", database) if there is None else there[0]


def _may(connection: Connection[Any], asked: str, *names: str) -> bool:
    found = connection.execute(f"SELECT {asked}".encode(), names).fetchone()
    return found is None or bool(found[0])
