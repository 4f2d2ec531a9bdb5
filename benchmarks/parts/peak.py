"""The most memory that one question or one preparation holds, in a process of its own.

Runs as a script: a request as JSON in, `{"peak": megabytes}` out, or `{"refused": why}`. A request has `sql`
and either `lab` (a private question; with `bounded`, at most so many groups and rows) or `database` (a plain
one); or, to prepare, `lab`, `source` and `per_user`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from parts.measuring import peak_megabytes


def plain(request: dict[str, Any]) -> None:
    import duckdb

    with duckdb.connect(request["database"]) as connection:
        if request["sql"].startswith(("SELECT", "WITH")):
            connection.sql(request["sql"]).to_arrow_table()
        else:
            connection.execute(request["sql"])


def private(request: dict[str, Any]) -> None:
    import sfumato as sf
    from parts.private import bounded

    query = sf.open(request["lab"]).session().sql(request["sql"])
    bounded(query, request["bounded"]).release(epsilon=request["epsilon"]).to_arrow()


def prepare(request: dict[str, Any]) -> None:
    from parts.private import prepared

    prepared(Path(request["lab"]), Path(request["source"]), request["per_user"])


def main(request: dict[str, Any]) -> None:
    work = prepare if "source" in request else private if "lab" in request else plain
    try:
        work(request)
    except Exception as error:  # whatever it is, the one who asked shows it
        print(json.dumps({"refused": refusal(error)}))
        return
    print(json.dumps({"peak": peak_megabytes()}))


def refusal(error: Exception) -> str:
    """A coded refusal by its code, anything else by its kind and first line."""
    return getattr(error, "code", None) or f"{type(error).__name__}: {str(error).splitlines()[0]}"


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
