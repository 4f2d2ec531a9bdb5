"""What an analyst holds of a lab on another machine: the surface of a session, over HTTP."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Any

from sfumato.lab.remote.answers import (
    RemoteBudget,
    RemoteQuote,
    no_other_level_error,
    read_answer,
    read_description,
    read_listing,
    read_receipt,
)
from sfumato.lab.remote.connection import Connection, quote_path
from sfumato.lab.remote.frames import RemoteFrame, RemoteGraph, encode_rows
from sfumato.lab.remote.models import RemoteModels
from sfumato.lab.remote.publications import list_remote_publications
from sfumato.lab.remote.questions import RemoteQuery, encode_spending, list_questions
from sfumato.lab.remote.streams import RemoteStream, encode_stream
from sfumato.lab.remote.work import read_plan, read_request
from sfumato.queries.aggregations import require_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Unpack

    import pyarrow as pa

    from sfumato.curator.catalog.description import TableDescription, TableListing
    from sfumato.curator.payer import Spending
    from sfumato.lab.bounds.tuning import PickedBounds
    from sfumato.lab.remote.jobs import RemoteJob
    from sfumato.lab.remote.publications import RemotePublication
    from sfumato.lab.remote.work import RemoteRequest
    from sfumato.lab.session import Session
    from sfumato.lab.sq_oracle import QueryOracle
    from sfumato.lab.work.planning import WorkPlan
    from sfumato.privacy.exact import Number


def connect(
    url: str,
    token: str,
    *,
    insecure: bool = False,
    timeout: float = 300.0,
    patience: float = 60.0,
    certificates: str | None = None,
) -> RemoteSession:
    """Return a session with a lab that `sfumato serve` offers: sf.connect("https://…", token="sfu_…").

    Certificates are verified, by the system's authorities or those in the file `certificates`. Plain http is
    for this machine alone unless `insecure=True`. If a connection is lost, a request is sent again for
    `patience` seconds; `timeout` is how long an answer may let wait. Every release carries a key, so that it
    is charged once.
    """
    connection = Connection.open(
        url, token, insecure=insecure, timeout=timeout, patience=patience, certificates=certificates
    )
    return RemoteSession(connection)


class RemoteSession:
    """An analyst's way into a lab on another machine. It has the surface of `lab.session(…)`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._models = RemoteModels(connection)
        # A wrong token is told here, and not with the first question.
        self._me: Mapping[str, Any] = connection.get("/api/me").read_json()

    # ---- what is declared ----

    @property
    def tables(self) -> TableListing:
        """The tables that can be asked about, and what is declared about each. This costs nothing."""
        return read_listing(self._connection.get("/api/tables").read_json())

    @property
    def budget(self) -> RemoteBudget:
        """What is left, for every population this session may spend on."""
        said = self._connection.get("/api/budget").read_json()
        return RemoteBudget(said["text"], said["accounts"])

    def published(self) -> tuple[RemotePublication, ...]:
        """Return what the steward published: answers and synthetic tables can be read for nothing."""
        return list_remote_publications(self._connection)

    # ---- work around questions ----

    def plan(self, questions: Sequence[str], **spending: Unpack[Spending]) -> WorkPlan:
        """Return the price of many questions in SQL, of each and of all together. Nothing is charged."""
        body = {"questions": [require_name(each) for each in questions], "spend": encode_spending(spending)}
        return read_plan(self._connection.post("/api/plan", body))

    def request(self, *, epsilon: Number, delta: Number = 0, reason: str) -> RemoteRequest:
        """Ask the steward for so much more of the quota, and say why. Return the request.

        The quota of a team is raised for all its members. `s.requests()` shows the answer.
        """
        body = {**encode_spending({"epsilon": epsilon, "delta": delta}), "reason": reason}
        return read_request(self._connection.post("/api/requests", body), self._connection)

    def requests(self) -> tuple[RemoteRequest, ...]:
        """Return what this analyst asked the steward for, with the answers, oldest first."""
        found = self._connection.get("/api/requests").read_json()["requests"]
        return tuple(read_request(each, self._connection) for each in found)

    def rehearse(self, folder: str | Path | None = None, *, rows: int | None = None) -> Session:
        """Return a session on a lab of stand-ins on this machine, with the same declarations and budgets.

        Questions, notebooks and models run there as they would on the server, and cost nothing that anybody
        has. The lab is made in a new `folder`, or in a temporary one.
        """
        from sfumato.lab.lab import create
        from sfumato.lab.synthetic.rehearsal import StandIn, build_rehearsal, choose_folder

        said = self._connection.get("/api/rehearsal").read_json()
        tables = [StandIn.from_dict(each) for each in said["tables"]]
        made = create(choose_folder(folder))
        session: Session = build_rehearsal(made, tables, said["analyst"], rows, self._fetch_twin)
        return session

    # ---- questions ----

    def sql(self, text: str) -> RemoteQuery:
        """Return a question in SQL. Nothing is read or spent until it is released."""
        return RemoteQuery(self, {"sql": require_name(text)}, text)

    def ask_together(self, questions: Sequence[str | RemoteQuery]) -> RemoteQuery:
        """Return questions that are charged once, and whose answers agree with each other.

        Each is given in SQL or as a question of this session. `release` gives one answer for each.
        """
        asked = [self.sql(each) if isinstance(each, str) else each for each in list_questions(questions)]
        text = "; ".join(each.text for each in asked)
        return RemoteQuery(self, {"together": [dict(each.question) for each in asked]}, text)

    def table(self, name: str) -> RemoteFrame:
        """Return a table to ask about step by step: where, group_by, then agg, top, distance and more."""
        return RemoteFrame(self, require_name(name))

    def graph(self, name: str) -> RemoteGraph:
        """Return a graph to ask about: its degrees, and the number of its edges."""
        return RemoteGraph(self, require_name(name))

    def oracle(self, table: str, *, epsilon: Number, questions: int = 1) -> QueryOracle:
        """Return an oracle for one's own programs: so many noisy averages, each for an equal part of ε."""
        from sfumato.lab.sq_oracle import QueryOracle

        frame: Any = self.table(table)
        return QueryOracle(frame, epsilon, questions)

    # ---- models ----

    def fit(
        self,
        estimator: Any,
        *,
        table: str | RemoteFrame,
        features: Sequence[str] = (),
        target: str | None = None,
        columns: Sequence[str] = (),
        rows_per_unit: int | None = None,
        split: tuple[float, str] | None = None,
        wait: bool = True,
    ) -> Any:
        """Learn from a table on the server; return the estimator, fitted, or what draws synthetic rows.

        Estimators come back as files without pickle and are loaded here. With wait=False the job is returned:
        `job.wait()` gives the same.
        """
        body = {
            "table": encode_rows(table, "fit"),
            "features": list(features),
            "target": target,
            "columns": list(columns),
            "rows_per_unit": rows_per_unit,
            "split": None if split is None else list(split),
        }
        job = self._models.fit(estimator, body)
        return job.wait() if wait else job

    def quote(self, asked: Any, *, table: str | RemoteFrame, **about: Any) -> Any:
        """Return how a synthesis would spend its budget. Nothing is read and nothing is spent."""
        return self._models.quote(asked, {"table": encode_rows(table, "quote"), **_plain(about)})

    def evaluate(self, model: Any, *, table: str | RemoteFrame, target: str, **asked: Any) -> Any:
        """Measure a model that was fitted in a session with this server on a table; charged first.

        `split`, `confidence`, `bins`, and what to spend are given as in a lab.
        """
        body = {"table": encode_rows(table, "evaluate"), "target": target, **encode_spending(_plain(asked))}
        return self._models.evaluate(model, body).wait()

    def twin(
        self,
        table: str,
        rows: int | None = None,
        *,
        seed: int | None = None,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
    ) -> pa.Table:
        """Return a stand-in for a table, with its names, types and ranges, to rehearse questions with.

        It costs nothing. With epsilon, epsilon and delta, or rho, one- and two-way marginals are bought.
        """
        if any(each is not None for each in (epsilon, delta, rho)):
            from sfumato.synth import Twin

            bought = Twin(epsilon=epsilon, delta=delta, rho=rho)
            drawn: pa.Table = self.fit(bought, table=table).sample(1000 if rows is None else rows, seed=seed)
            return drawn
        return self._fetch_twin(require_name(table), rows, seed)

    def jobs(self) -> tuple[RemoteJob, ...]:
        """Return the long work that was sent to the server, newest first."""
        return self._models.list_jobs()

    # ---- streams ----

    def stream(self, table: str, *, time: str, measure: Any, horizon: int, **about: Any) -> RemoteStream:
        """Return a stream over a table that the steward advances: one charge for `horizon` ticks.

        `start`, `by`, `where`, `participations`, `separation`, `contribution`, `window`, `blocks`, and what
        to spend are given as in a lab. Everyone may quote a stream and read what was released of it; the
        steward releases ticks.
        """
        typed = {"table": table, "time": time, "measure": measure, "horizon": horizon, **about}
        return RemoteStream(self._connection, encode_stream(typed))

    def streams(self) -> tuple[RemoteStream, ...]:
        """Return the streams that were begun, of tables that this session may ask about."""
        found = self._connection.get("/api/streams").read_json()["streams"]
        return tuple(RemoteStream(self._connection, each["stream"], each["released"]) for each in found)

    # ---- what frames and questions ask for ----

    def ask_quote(self, question: Mapping[str, Any], spend: Mapping[str, Any]) -> Any:
        """Return price and expected error of a question, or the facts that it asks for."""
        said = self._connection.post("/api/quote", {"question": question, "spend": spend})
        if said.get("form") == "facts":
            return read_answer(said, _no_level, None)
        return RemoteQuote(said, partial(self._at_level, "/api/expected", question, spend))

    def ask_release(self, question: Mapping[str, Any], spend: Mapping[str, Any], key: str | None) -> Any:
        """Charge for a question and return its answer."""
        named = secrets.token_hex(16) if key is None else key
        said = self._connection.post("/api/release", {"question": question, "spend": spend, "key": named})
        return self._read_release(said, question, spend)

    def ask_tune(
        self, question: Mapping[str, Any], said: Mapping[str, Any], key: str | None
    ) -> tuple[PickedBounds, Mapping[str, Any]]:
        """Charge for counts of units; return the bounds that were picked, and the question with them."""
        from sfumato.lab.bounds.tuning import PickedBounds

        named = secrets.token_hex(16) if key is None else key
        told = self._connection.post("/api/tune", {"question": question, **said, "key": named})
        receipt = read_receipt(told["picked"]["receipt"])
        return PickedBounds.from_dict(told["picked"], receipt), told["question"]

    def describe(self, question: Mapping[str, Any]) -> TableDescription:
        """Return what is declared about the rows of a frame."""
        return read_description(self._connection.post("/api/describe", {"question": question}))

    def __repr__(self) -> str:
        place = f"{self._connection.scheme}://{self._connection.host}"
        port = "" if self._connection.port is None else f":{self._connection.port}"
        return f"RemoteSession({self._me['name']!r} at {place}{port})"

    def _fetch_twin(self, table: str, rows: int | None, seed: int | None) -> pa.Table:
        from sfumato.lab.remote.jobs import read_parquet

        path = f"/api/twins{quote_path(table)}"
        return read_parquet(self._connection.get(path, rows=rows, seed=seed).body)

    def _read_release(
        self, said: Mapping[str, Any], question: Mapping[str, Any], spend: Mapping[str, Any]
    ) -> Any:
        at_level = partial(self._at_level, "/api/intervals", question, spend)
        if said.get("form") == "together":
            return tuple(
                read_answer(each, partial(at_level, place=place), None)
                for place, each in enumerate(said["answers"])
            )
        return read_answer(said, at_level, partial(self._refine, said.get("entry"), question, spend))

    def _refine(
        self,
        entry: int | None,
        question: Mapping[str, Any],
        spend: Mapping[str, Any],
        more: Mapping[str, Any],
    ) -> Any:
        # Refining one answer in one way is one charge, however often it is sent.
        said = self._connection.post("/api/refine", {"entry": entry, "spend": encode_spending(more)})
        return read_answer(said, _no_level, partial(self._refine, said.get("entry"), question, spend))

    def _at_level(
        self,
        path: str,
        question: Mapping[str, Any],
        spend: Mapping[str, Any],
        confidence: float,
        place: int | None = None,
        *,
        all_groups: bool = False,
    ) -> Mapping[str, Any]:
        body = {"question": question, "spend": spend, "confidence": float(confidence)}
        body |= {} if place is None else {"place": place}
        body |= {"all_groups": True} if all_groups else {}
        found: Mapping[str, Any] = self._connection.post(path, body)
        return found


def _no_level(_: float, **_more: Any) -> Mapping[str, Any]:
    raise no_other_level_error()


def _plain(about: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(each) if isinstance(each, tuple) else each for name, each in about.items()}
