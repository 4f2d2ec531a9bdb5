"""Models that a server fits: estimators that are loaded here, and generators that draw rows there."""

from __future__ import annotations

import hashlib
import json
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import UsageError
from sfumato.lab.remote.connection import quote_path
from sfumato.lab.remote.jobs import RemoteJob, read_parquet
from sfumato.lab.remote.parameters import encode_model
from sfumato.lab.remote.results import (
    read_evaluation,
    read_guarantee,
    read_synthesis_quote,
    require_result,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sfumato.lab.remote.connection import Connection
    from sfumato.oracle.guarantee import Guarantee
    from sfumato.synth.quote import SynthesisQuote

_FITTED = "_fitted_by"
"""Where an estimator keeps which job fitted it, and a digest of what it learnt. Files do not keep this."""


@dataclass(frozen=True, slots=True)
class RemoteModels:
    """Sends models to a server to be fitted, and fetches what they learnt."""

    connection: Connection

    def fit(self, model: Any, body: Mapping[str, Any]) -> RemoteJob:
        """Begin a fit, and return its job. Waiting for it gives the model."""
        sent = encode_model(model)
        job = self._send("fit", {"model": sent, **body})
        job.make = lambda id_, said: self._fetch(id_, said, model)
        return job

    def quote(self, model: Any, body: Mapping[str, Any]) -> SynthesisQuote:
        """Return how a generator would spend its budget."""
        sent = {"model": encode_model(model), **body}
        return read_synthesis_quote(self.connection.post("/api/models/quote", sent))

    def evaluate(self, model: Any, body: Mapping[str, Any]) -> RemoteJob:
        """Begin to measure a model, and return the job."""
        job = self._send("evaluate", {"model": find_job_of(model), **body})
        job.make = lambda _, said: read_evaluation(
            require_result(said, "evaluation", "regression evaluation")
        )
        return job

    def list_jobs(self) -> tuple[RemoteJob, ...]:
        """Return all jobs of this person, newest first."""
        found = self.connection.get("/api/jobs").read_json()["jobs"]
        return tuple(RemoteJob(self.connection, each, self._read_result) for each in found)

    def send_sample(self, job: str, body: Mapping[str, Any]) -> RemoteJob:
        """Begin to draw rows of a generator."""
        return self._send("sample", {"model": job, **body})

    def _send(self, kind: str, body: Mapping[str, Any]) -> RemoteJob:
        # One key for each call, kept over retries: the work is done, and charged, once.
        sent = {name: each for name, each in body.items() if each is not None and each != []}
        said = self.connection.post("/api/jobs", {"kind": kind, "key": secrets.token_hex(16), **sent})
        return RemoteJob(self.connection, said)

    def _fetch(self, id_: str, said: Mapping[str, Any], model: Any) -> Any:
        if require_result(said, "estimator", "generator")["form"] == "generator":
            return RemoteSynthesis(self, id_, said)
        return hand_over(self._load(id_), model)

    def _read_result(self, id_: str, said: Mapping[str, Any]) -> Any:
        """Return what a job made, of which nothing else is known here."""
        match said.get("form"):
            case "estimator":
                return self._load(id_)
            case "generator":
                return RemoteSynthesis(self, id_, said)
            case "rows":
                return self.read_rows(id_)
        return read_evaluation(require_result(said, "evaluation", "regression evaluation"))

    def read_rows(self, job: str) -> pa.Table:
        """Return the rows that a job drew."""
        return read_parquet(self.connection.get(f"/api/models{quote_path(job)}/rows").body)

    def _load(self, job: str) -> Any:
        from sfumato.learn import load

        body = self.connection.get(f"/api/models{quote_path(job)}/file").body
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.npz"
            path.write_bytes(body)
            model: Any = load(path)
        remember_job(model, job)
        return model


@dataclass(frozen=True, slots=True, repr=False)
class RemoteSynthesis:
    """A generator that was fitted on a server, which draws rows as often as one likes, for nothing."""

    models: RemoteModels
    job: str
    said: Mapping[str, Any]

    @property
    def guarantee_(self) -> Guarantee | None:
        """What was promised for what was bought; nothing where nothing was."""
        promised = self.said["guarantee"]
        return None if promised is None else read_guarantee(promised)

    @property
    def quote_(self) -> SynthesisQuote | None:
        """How the budget was spent."""
        said = self.said["quote"]
        return None if said is None else read_synthesis_quote(said)

    def sample(
        self, rows: int, *, key: str | None = None, labels: Any = None, seed: int | None = None
    ) -> Any:
        """Return so many synthetic rows; generators of labelled rows give the rows and their labels.

        With `key` a column of that name numbers the rows. The same `seed` draws the same rows.
        """
        asked = {"rows": rows, "row_key": key, "labels": labels, "seed": seed}
        job = self.models.send_sample(self.job, asked)
        drawn = require_result(job.wait(), "rows")
        table = self.models.read_rows(job.id)
        if drawn["target"] is None:
            return table
        at = table.column_names.index(drawn["target"])
        found: Any = table.remove_column(at)
        if drawn["shape"]:
            found = np.column_stack([each.to_numpy() for each in found.columns]).reshape(-1, *drawn["shape"])
        return found, table.column(at).to_numpy()

    def __repr__(self) -> str:
        return f"{self.said['text']}\nfitted by job {self.job[:12]} of the server"


def remember_job(model: Any, job: str) -> None:
    """Note in a model which job fitted it, for as long as nothing that it learnt is changed."""
    model.__dict__[_FITTED] = (job, _digest(model))


def find_job_of(model: Any) -> str:
    """Return which job fitted a model; one that was changed since is refused."""
    job, digest = getattr(model, "__dict__", {}).get(_FITTED, ("", ""))
    if not job or digest != _digest(model):
        raise _not_fitted_here()
    return str(job)


def hand_over(fitted: Any, given: Any) -> Any:
    """Give what was learnt on the server to the estimator that was handed in, and return that."""
    known = type(given).get_params(given, deep=False)
    vars(given).update({name: value for name, value in vars(fitted).items() if name not in known})
    return given


def _digest(model: Any) -> str:
    from sfumato.learn.base.saving import list_learned, to_json

    written = json.dumps(to_json(list_learned(model)), sort_keys=True)
    return hashlib.sha256(written.encode()).hexdigest()


def _not_fitted_here() -> UsageError:
    return UsageError(
        "SF-E117",
        "Over HTTP, only models that this server has fitted are measured.",
        why="the server reads no model from elsewhere, and this one was fitted or changed in another place",
        try_="m = s.fit(…), then s.evaluate(m, …)",
    )
