"""Long work as pages show it: what is typed into their forms, and what came of a job."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from sfumato import viz
from sfumato.errors.numbers import format_bound, format_decimal
from sfumato.lab.remote.parameters import GENERATORS
from sfumato.server.facts.typed import read_optional_number, read_typed_number, wrong_field_error
from sfumato.server.remote.sent_values import EvaluateJobBody, FitJobBody, SampleJobBody

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sfumato.server.jobs.store import ServerJob
    from sfumato.viz import Chart

CLASSIFIERS: Final = (
    "LogisticRegression",
    "AutoClassifier",
    "LinearSVC",
    "GradientBoosting",
    "DecisionTree",
    "GaussianNB",
    "CategoricalNB",
    "LinearRegression",
    "GradientBoostingRegressor",
)
"""Estimators that the form offers: those that need nothing beside features and a target."""
LABELLED: Final = ("Moments", "MERF")
"""Generators that draw rows with the classes of a target."""
MADE: Final = ("Marginals", *LABELLED)
"""Generators that the form offers."""
TRAINED_SHARE: Final = 0.8
"""Share of the units that a model is fitted on; it is measured on the others."""


@dataclass(frozen=True, slots=True)
class MeasuredLine:
    """A number that was measured privately, with its interval."""

    name: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class MeasuredCurve:
    """A curve whose points were measured privately, each with its interval."""

    name: str
    picture: Chart
    header: tuple[str, ...]
    points: tuple[tuple[float, ...], ...]
    """Place, value, and the ends of the interval, of each point."""

    @classmethod
    def read(
        cls, name: str, draw: Callable[..., Chart], titles: tuple[str, str], found: Sequence[Any]
    ) -> MeasuredCurve:
        """Return a curve as an evaluation has it: pairs of a place and what was measured there."""
        points = tuple((at, *measured[:3]) for at, measured in found)
        return cls(name, draw(*zip(*points, strict=True)), (*titles, "95 % interval"), points)

    def rows(self) -> list[tuple[str, ...]]:
        """Return the points as the cells of a table."""
        return [
            (
                format_decimal(x, 3),
                format_decimal(y, 3),
                f"{format_decimal(low, 3)} to {format_decimal(high, 3)}",
            )
            for x, y, low, high in self.points
        ]


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as a page shows it."""

    job: ServerJob

    @property
    def title(self) -> str:
        """What the job is, in words."""
        model = self.job.body.get("model")
        named = model.get("name", "") if isinstance(model, dict) else ""
        words = {"fit": f"Fit of {named}", "sample": "Synthetic rows", "evaluate": "Measurement of a model"}
        return words[self.job.kind]

    @property
    def is_generator(self) -> bool:
        """Whether the job belongs on the page of synthetic tables."""
        model = self.job.body.get("model")
        return self.job.kind == "sample" or (isinstance(model, dict) and model.get("name") in GENERATORS)

    @property
    def has_card(self) -> bool:
        """Whether rows of what the job made can be published with a card: that is so for marginals."""
        model = self.job.body.get("model")
        return self.job.kind == "fit" and isinstance(model, dict) and model.get("name") == "Marginals"

    @property
    def about(self) -> list[tuple[str, str]]:
        """What was asked for, as names and texts."""
        body = self.job.body
        said = [("table", _name_rows(body.get("table"))), ("of job", body.get("model"))]
        said += [("features", ", ".join(body.get("features", ()))), ("target", body.get("target"))]
        said += [("columns", ", ".join(body.get("columns", ()))), ("rows", body.get("rows"))]
        return [(name, str(text)) for name, text in said if text and not isinstance(text, dict)]

    @property
    def outcome(self) -> Mapping[str, Any]:
        """The result, or the problem; empty while there is none."""
        return self.job.outcome or {}

    @property
    def measured(self) -> list[MeasuredLine]:
        """What was measured, each number with its interval."""
        found = self.outcome
        names = {
            "accuracy": "accuracy",
            "auc": "area under the curve",
            "r2": "R²",
            "rmse": "root mean square error",
        }
        return [MeasuredLine(said, *found[name][:3]) for name, said in names.items() if found.get(name)]

    @property
    def curves(self) -> list[MeasuredCurve]:
        """The ROC curve and the calibration of a classifier, of the numbers that were released."""
        drawn = (
            ("roc", viz.roc_curve, "share of the first class", "share of the second class"),
            ("calibration", viz.calibration_curve, "predicted chance", "observed share"),
        )
        return [
            MeasuredCurve.read(name, draw, (x, y), self.outcome[name])
            for name, draw, x, y in drawn
            if self.outcome.get("form") == "evaluation" and self.outcome.get(name)
        ]

    @property
    def guarantee(self) -> list[tuple[str, str]]:
        """What the result cost, as names and texts."""
        said = self.outcome.get("guarantee") or {}
        cost = f"ε = {format_bound(said['epsilon'], 6, up=True)}" if "epsilon" in said else ""
        cost += f", δ = {format_bound(said['delta'], 3, up=True)}" if said.get("delta") else ""
        pairs = [
            ("protects", said.get("unit")),
            ("cost at most", cost),
            ("arithmetic", said.get("arithmetic")),
        ]
        return [(name, str(text)) for name, text in pairs if text]


def make_form_key() -> str:
    """Return a key for a form that is about to be shown: sent twice, it is one job."""
    return secrets.token_hex(16)


def read_fit(fields: Mapping[str, str], chosen: list[str], *, generator: bool) -> FitJobBody:
    """Return the fit that was typed: features and a target, or columns alone for a table of marginals."""
    offered = MADE if generator else CLASSIFIERS
    model = fields.get("model", "")
    if model not in offered:
        raise wrong_field_error("model", offered[0])
    if not chosen:
        raise wrong_field_error("columns" if generator else "features", "choose at least one")
    spend = {"epsilon": _exact(read_typed_number(fields.get("epsilon", ""), "ε"))}
    delta = read_optional_number(fields.get("delta", ""), "δ")
    spend |= {} if delta is None else {"delta": _exact(delta)}
    body: dict[str, Any] = {
        "kind": "fit",
        "key": fields.get("form_key") or make_form_key(),
        "model": {"name": model, "parameters": spend},
        "table": fields.get("table", ""),
    }
    if generator and model not in LABELLED:
        return FitJobBody(**body, columns=chosen)
    if not fields.get("target"):
        raise wrong_field_error(
            "target", "the column of classes" if generator else "the column that is predicted"
        )
    body |= {"target": fields["target"], "features": [each for each in chosen if each != fields["target"]]}
    return FitJobBody(**body) if generator else FitJobBody(**body, split=(TRAINED_SHARE, "train"))


def read_evaluation(fit: ServerJob, fields: Mapping[str, str]) -> EvaluateJobBody:
    """Return the measurement of a model on the units that its fit left out."""
    split: Any = (fit.body["split"][0], "test") if fit.body.get("split") else None
    return EvaluateJobBody(
        kind="evaluate",
        key=fields.get("form_key") or make_form_key(),
        model=fit.id,
        table=fit.body["table"],
        target=fit.body["target"],
        epsilon=str(read_typed_number(fields.get("epsilon", ""), "ε")),
        split=split,
    )


def read_sample(fit: ServerJob, fields: Mapping[str, str]) -> SampleJobBody:
    """Return the drawing of synthetic rows, which is free."""
    rows = fields.get("rows", "").replace(",", "").strip()
    if not (rows.isascii() and rows.isdigit() and 0 < int(rows) <= 1_000_000):
        raise wrong_field_error("rows", "1000")
    return SampleJobBody(
        kind="sample", key=fields.get("form_key") or make_form_key(), model=fit.id, rows=int(rows)
    )


def _exact(number: Any) -> dict[str, str]:
    return {"fraction": str(Fraction(number))}


def _name_rows(table: Any) -> str:
    return str(table.get("table", "")) if isinstance(table, dict) else str(table or "")
