"""The kinds of long work: fits, samples of generators and evaluations, each with checked arguments.

What is sent is decoded by a closed list before a job is kept, and once more where it runs. No code and no
pickle is ever read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato.errors import PolicyError, UsageError
from sfumato.files.durable import replace_file
from sfumato.lab.remote.kept_answers import restrict_to_kept
from sfumato.lab.remote.parameters import GENERATORS, decode_model
from sfumato.lab.remote.results import (
    write_evaluation,
    write_guarantee,
    write_synthesis_quote,
)
from sfumato.server.jobs.store import JobState
from sfumato.server.replaying import replay_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from sfumato.lab.session import Session
    from sfumato.server.jobs.store import JobStore, ServerJob

MODEL_FILE, TABLE_FILE = "npz", "parquet"
MOST_ROWS = 1_000_000
"""Synthetic rows that are drawn at a time."""
_FIT = ("features", "target", "columns", "rows_per_unit", "split")
_SPEND = ("epsilon", "delta", "rho")


@dataclass(frozen=True, slots=True)
class JobWork:
    """A job with all that its work needs."""

    store: JobStore
    job: ServerJob
    session: Session

    @property
    def body(self) -> Mapping[str, Any]:
        """What was sent."""
        return self.job.body


def run_task(work: JobWork) -> dict[str, Any]:
    """Do the work of a job, and return its result, ready for JSON."""
    return _TASKS[work.job.kind](work)


def check_sent(store: JobStore, session: Session, owner: str, body: Mapping[str, Any]) -> None:
    """Refuse what cannot be done, before a job is kept. Nothing is charged or read."""
    model = body["model"]
    if isinstance(model, str):
        find_fit(store, model, owner)
    else:
        decode_model(model)
    if "table" in body:
        replay_rows(session, body["table"])


def find_fit(store: JobStore, id_: str, owner: str | None) -> ServerJob:
    """Return a fit of a person that is done; for None, of anyone."""
    job = store.find_job(id_, owner)
    if job.kind != "fit" or job.state is not JobState.DONE:
        raise PolicyError(
            "SF-U101", "There is no model in this job.", state=job.state.value, try_="a fit that is done"
        )
    return job


def rebuild_generator(session: Session, fit: ServerJob) -> Any:
    """Return the generator that a fit made, from what the ledger keeps, which costs nothing."""
    return _fit_model(restrict_to_kept(session), fit.body)


# ---- the work ----------------------------------------------------------------------------------------------


def _fit(work: JobWork) -> dict[str, Any]:
    from sfumato.learn.base.saving import save

    model = _fit_model(work.session, work.body)
    promised = getattr(model, "guarantee_", None)
    said = {
        "name": type(model).__name__,
        "guarantee": None if promised is None else write_guarantee(promised),
        "text": repr(model),
    }
    if said["name"] in GENERATORS:
        quote = getattr(model, "quote_", None)
        return {"form": "generator", **said, "quote": None if quote is None else write_synthesis_quote(quote)}
    save(model, work.store.make_path(work.job.id, MODEL_FILE))
    return {"form": "estimator", **said}


def _sample(work: JobWork) -> dict[str, Any]:
    """Draw rows of a generator. It is rebuilt from what the ledger keeps, which costs nothing."""
    from io import BytesIO

    from pyarrow import parquet

    fitted = find_fit(work.store, work.body["model"], work.job.owner)
    generator = rebuild_generator(work.session, fitted)
    named = {"seed": "seed", "key": "row_key", "labels": "labels"}
    arguments = {name: work.body[sent] for name, sent in named.items() if work.body.get(sent) is not None}
    try:
        drawn = generator.sample(work.body["rows"], **arguments)
    except TypeError:
        raise UsageError("SF-E138", "This generator does not draw rows with these arguments.") from None
    shape = None
    if isinstance(drawn, tuple):
        rows, labels = drawn
        drawn, shape = _put_labels_beside(rows, labels, fitted.body)
    file = BytesIO()
    parquet.write_table(drawn, file)
    replace_file(work.store.make_path(work.job.id, TABLE_FILE), file.getvalue(), private=True)
    target = None if shape is None else fitted.body["target"]
    return {"form": "rows", "rows": drawn.num_rows, "target": target, "shape": shape}


def _put_labels_beside(rows: Any, labels: Any, body: Mapping[str, Any]) -> tuple[pa.Table, list[int]]:
    """Return labelled rows as one table, and the shape of a row where rows are arrays; empty for a table."""
    import pyarrow as pa

    shape: list[int] = []
    if not isinstance(rows, pa.Table):
        shape = list(rows.shape[1:])
        flat = rows.reshape(len(rows), -1)
        rows = pa.table({name: flat[:, at] for at, name in enumerate(body["features"])})
    return rows.append_column(str(body["target"]), pa.array(labels.tolist())), shape


def _evaluate(work: JobWork) -> dict[str, Any]:
    from sfumato.learn import load

    fitted = find_fit(work.store, work.body["model"], work.job.owner)
    if fitted.outcome is None or fitted.outcome["form"] != "estimator":
        raise PolicyError("SF-U101", "There is no model in this job.", try_="a fit of an estimator")
    model = load(work.store.make_path(fitted.id, MODEL_FILE))
    names = (*_SPEND, "target", "split", "confidence", "bins")
    return write_evaluation(work.session.evaluate(model, **_rows_and(work, names)))


_TASKS: dict[str, Callable[[JobWork], dict[str, Any]]] = {
    "fit": _fit,
    "sample": _sample,
    "evaluate": _evaluate,
}
KINDS = tuple(_TASKS)
"""The kinds of jobs."""


def _fit_model(session: Session, body: Mapping[str, Any]) -> Any:
    model = decode_model(body["model"])
    given = read_arguments(body, _FIT)
    return session.fit(model, table=replay_rows(session, body["table"]), **given)


def _rows_and(work: JobWork, names: tuple[str, ...]) -> dict[str, Any]:
    return {"table": replay_rows(work.session, work.body["table"]), **read_arguments(work.body, names)}


def read_arguments(body: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the arguments of these names that were sent, as a session takes them."""
    given = {name: body[name] for name in names if body.get(name) is not None}
    if "split" in given:
        given["split"] = tuple(given["split"])
    for name in _SPEND:
        if name in given:
            from sfumato.server.wire import parse_number

            given[name] = parse_number(given[name])
    return given
