"""Print which code runs for a registration, a question, a fit and HTTP: `python tools/walk.py`.

A small lab is made up in a temporary folder. Each walk is printed as the files it enters and, below each, its
functions, both in the order in which they are first entered. Run with another PYTHONPATH, this measures
another version of the package: only what people type is used here.

What is counted: named functions of the package, in every thread of this process, the first time that the
question is asked. Comprehensions, generator expressions and imports are left out, and so are functions of
other libraries, and what runs in the processes that read rows for a question over HTTP. A generator counts
once for each value that it yields.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import warnings
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import sfumato as sf
import sfumato.learn  # here, so that the fit does not import it
from sfumato.server.app import create_app
from sfumato.server.people import PeopleStore

with warnings.catch_warnings():
    # It would rather have another client, which does the same.
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

PACKAGE = Path(sf.__file__).parent
OTHER = "SELECT COUNT(*) AS n, AVG(age) AS age FROM visits WHERE ward = 'A'"
QUESTION = "SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM visits WHERE age >= 65 GROUP BY ward"
ROWS = 2000
MOST_CALLED = 25


class Walk:
    """Counts the calls of each of the package's functions, in the order in which they are first entered."""

    def __init__(self) -> None:
        self.calls: Counter[CodeType] = Counter()

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Count while the block runs, in this thread and in those that it starts."""
        threading.setprofile(self._notice)
        sys.setprofile(self._notice)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _notice(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and _is_counted(code):
            self.calls[code] += 1

    def files(self) -> dict[str, list[CodeType]]:
        """Return the functions that were entered, by file."""
        found: dict[str, list[CodeType]] = {}
        for code in self.calls:
            found.setdefault(Path(code.co_filename).relative_to(PACKAGE).as_posix(), []).append(code)
        return found

    def summary(self, name: str) -> str:
        """Return one line with the three numbers."""
        files, functions, calls = len(self.files()), len(self.calls), self.calls.total()
        return f"{name:<13}{files:>4} files {functions:>5} functions {calls:>8,} calls"


def _is_counted(code: CodeType) -> bool:
    return code.co_filename.startswith(f"{PACKAGE}/") and not code.co_name.startswith("<")


def _visits() -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table(
        {
            "patient_id": np.arange(ROWS) // 2,
            "age": rng.integers(0, 110, ROWS),
            "cost": rng.uniform(0, 5000, ROWS),
            "ward": rng.choice(["A", "B", "C"], ROWS),
            "readmitted": rng.integers(0, 2, ROWS),
        }
    )


def _register(lab: Any) -> None:
    lab.register(
        "visits",
        _visits(),
        unit=sf.Unit("patient_id", max_rows=20),
        columns={
            "age": sf.between(0, 110),
            "cost": sf.between(0, 5000),
            "ward": sf.one_of("A", "B", "C"),
            "readmitted": sf.one_of(0, 1),
        },
        budget=sf.Budget(epsilon=4),
    )


def _ask(lab: Any) -> None:
    query = lab.session("ada").sql(QUESTION)
    str(query.quote(epsilon=0.1))
    str(query.release(epsilon=0.1))


def _fit(lab: Any) -> None:
    """A number of rows and 20 gradients, so 21 rounds."""
    estimator = sf.learn.LogisticRegression(epsilon=0.5)
    model: Any = lab.session("ada").fit(
        estimator, table="visits", features=["age", "cost"], target="readmitted"
    )
    if model.n_iter_ != 20:
        raise SystemExit(f"the fit took {model.n_iter_} steps, not 20: its calls compare with nothing")


def _ask_over_http(lab: Any) -> Walk:
    """Return the walk of a quote and a release over HTTP. The server and its workers are there before."""
    people = PeopleStore(lab.folder / "people.sqlite")
    people.add_person("ada", "analyst")
    token = people.make_token("ada")
    people.close()
    walk, found, body = Walk(), Walk(), {"question": {"sql": OTHER}, "spend": {"epsilon": 0.1}}
    headers = {"Authorization": f"Bearer {token}"}
    # Threads are counted from their start, so the server starts meanwhile, and what that takes is forgotten.
    with walk.recorded(), TestClient(create_app(lab), headers=headers) as client:
        client.get("/healthz")
        walk.calls.clear()
        for path in ("/api/quote", "/api/release"):
            client.post(path, json=body).raise_for_status()
        found.calls.update(walk.calls)
    return found


def walks() -> dict[str, Walk]:
    """Return the walks by name, in the order in which they are taken."""
    with tempfile.TemporaryDirectory() as folder:
        lab = sf.create(Path(folder) / "clinic")
        taken = {}
        for name, steps in {"registration": _register, "question": _ask, "fit": _fit}.items():
            taken[name] = Walk()
            with taken[name].recorded():
                steps(lab)
            if name == "registration":
                lab.grant("ada", epsilon=2)
        return {**taken, "http": _ask_over_http(lab)}


def main() -> None:
    """Print each walk, or with --summary its numbers alone."""
    parser = argparse.ArgumentParser(
        description="Which code runs for a registration, a question, a fit and HTTP."
    )
    parser.add_argument("--summary", action="store_true", help="only the numbers")
    parser.add_argument("--calls", action="store_true", help="only the functions that are called most")
    chosen = parser.parse_args()
    for name, walk in walks().items():
        print(walk.summary(name))
        if chosen.calls:
            for code, calls in walk.calls.most_common(MOST_CALLED):
                file = Path(code.co_filename).relative_to(PACKAGE).as_posix()
                print(f"  {calls:>8,}  {file}  {code.co_qualname}")
        elif not chosen.summary:
            for file, functions in walk.files().items():
                print(f"  {file}")
                print("".join(f"    {code.co_qualname}\n" for code in functions), end="")


if __name__ == "__main__":
    main()
