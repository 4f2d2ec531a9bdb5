"""What fits, evaluations and reports give, as JSON: written by a server, and read here as what it was."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sfumato.errors import UsageError
from sfumato.oracle.guarantee import Guarantee

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.learn.evaluation import Evaluation
    from sfumato.learn.regression_scores import RegressionEvaluation
    from sfumato.synth.quote import SynthesisQuote


def write_guarantee(promised: Guarantee) -> dict[str, Any]:
    """Return a guarantee, ready for JSON."""
    return {name: _write_number(each) for name, each in promised.to_dict().items()}


def read_guarantee(said: Mapping[str, Any]) -> Guarantee:
    """Return a guarantee as it was written."""
    return Guarantee(**{name: _read_number(each) for name, each in said.items()})


def write_synthesis_quote(quote: SynthesisQuote) -> dict[str, Any]:
    """Return how a synthesis spends its budget, ready for JSON."""
    return {"cost": quote.cost, "parts": [list(each) for each in quote.parts]}


def read_synthesis_quote(said: Mapping[str, Any]) -> SynthesisQuote:
    """Return how a synthesis spends its budget."""
    from sfumato.synth.quote import SynthesisQuote

    return SynthesisQuote(said["cost"], tuple((name, share, buys) for name, share, buys in said["parts"]))


# ---- evaluations -------------------------------------------------------------------------------------------


def write_evaluation(found: Evaluation | RegressionEvaluation) -> dict[str, Any]:
    """Return what was measured of a model, ready for JSON."""
    from sfumato.learn.evaluation import Evaluation

    promised = write_guarantee(found.guarantee)
    if isinstance(found, Evaluation):
        return {
            "form": "evaluation",
            "classes": list(found.classes),
            "confusion": found.confusion.tolist(),
            "deviation": found.deviation,
            "accuracy": _write_measured(found.accuracy),
            "auc": None if found.auc is None else _write_measured(found.auc),
            "calibration": [[at, _write_measured(each)] for at, each in found.calibration],
            "roc": [[at, _write_measured(each)] for at, each in found.roc],
            "guarantee": promised,
            "text": str(found),
        }
    return {
        "form": "regression evaluation",
        "r2": _write_measured(found.r2),
        "rmse": _write_measured(found.rmse),
        "residuals": [[_write_number(each) for each in pair] for pair in found.residuals],
        "rows": found.rows,
        "guarantee": promised,
        "text": str(found),
    }


def read_evaluation(said: Mapping[str, Any]) -> Evaluation | RegressionEvaluation:
    """Return what was measured of a model."""
    import numpy as np

    from sfumato.learn.evaluation import Evaluation
    from sfumato.learn.regression_scores import RegressionEvaluation

    promised = read_guarantee(said["guarantee"])
    if said["form"] == "evaluation":
        curves = (
            tuple((at, _read_measured(each)) for at, each in said[name]) for name in ("calibration", "roc")
        )
        calibration, roc = curves
        return Evaluation(
            tuple(said["classes"]),
            np.array(said["confusion"], dtype=np.int64),
            said["deviation"],
            _read_measured(said["accuracy"]),
            None if said["auc"] is None else _read_measured(said["auc"]),
            calibration,
            promised,
            roc,
        )
    residuals = tuple((_read_number(share), _read_number(value)) for share, value in said["residuals"])
    r2, rmse = (_read_measured(said[name]) for name in ("r2", "rmse"))
    return RegressionEvaluation(r2, rmse, residuals, said["rows"], promised)


# ---- numbers -----------------------------------------------------------------------------------------------


def _write_measured(measured: Any) -> list[Any]:
    return [_write_number(each) for each in asdict(measured).values()]


def _read_measured(said: list[Any]) -> Any:
    from sfumato.learn.regression_scores import Measured

    return Measured(*map(_read_number, said))


def _write_number(value: Any) -> Any:
    # JSON has neither infinities nor NaN.
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _read_number(value: Any) -> Any:
    return float(value) if value in ("inf", "-inf", "nan") else value


def require_result(said: Mapping[str, Any], *forms: str) -> Mapping[str, Any]:
    """Return the result of a job if it is of one of these forms."""
    if said.get("form") not in forms:
        raise UsageError(
            "SF-W157",
            "The server gives answers of a newer kind.",
            got=str(said.get("form")),
            try_="a newer sfumato",
        )
    return said
