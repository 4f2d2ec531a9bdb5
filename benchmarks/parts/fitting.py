"""One fit behind the curator, or the sums that the same model needs in plain DuckDB, in a process of its own.

Runs as a script: a request as JSON in, seconds, megabytes and scans as JSON out. A request has `model` and
either `lab` or `database`.
"""

from __future__ import annotations

import json
import sys
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

from parts.measuring import peak_megabytes, timed
from parts.rounds import ROUNDS, fitted_in_rounds, plain_rounds
from parts.wide import FEATURES, LABEL, TARGET

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sfumato.lab.lab import Lab

ESTIMATORS = {
    "linear regression": ("LinearRegression", TARGET),
    "naive Bayes": ("GaussianNB", LABEL),
    "PCA of 5": ("PCA", None),
}
SPEND = {"epsilon": 1.0, "delta": 1e-6}


def prepared(folder: Path, source: Any) -> Lab:
    """A lab in which each row of the table `wide` is a person."""
    import sfumato as sf

    lab = sf.create(folder)
    numbers = {name: sf.between(-1, 1) for name in (*FEATURES, TARGET)}
    columns = {**numbers, LABEL: sf.one_of(0, 1)}
    lab.register("wide", source, unit=sf.ROW, columns=columns, budget=sf.Budget(epsilon=1e6, delta=1e-2))
    return lab


def fitted(lab: Lab, model: str) -> Any:
    from sfumato import learn

    name, target = ESTIMATORS[model]
    more = {"n_components": 5} if name == "PCA" else {}
    estimator = getattr(learn, name)(**SPEND, **more)
    return lab.session().fit(estimator, table="wide", features=list(FEATURES), target=target)


def recorded(lab: Lab) -> list[tuple[Any, Any]]:
    """From now on, what the engine is asked and what it answers, exactly."""
    engine: Any = lab.engine
    run, asked = type(engine).run, []

    def noted(program: Any) -> Any:
        answer = run(engine, program)
        asked.append((program, answer))
        return answer

    engine.run = noted
    return asked


# ---- plainly -----------------------------------------------------------------------------------------------


def products(names: Sequence[str]) -> list[str]:
    return [f"SUM({one} * {other})" for one, other in combinations_with_replacement(names, 2)]


def plain(model: str) -> str:
    """The sums that a model without noise is solved from."""
    sums = ["COUNT(*)", *(f"SUM({name})" for name in FEATURES)]
    if model == "naive Bayes":
        squares = [f"SUM({name} * {name})" for name in FEATURES]
        return f"SELECT {LABEL}, {', '.join([*sums, *squares])} FROM wide GROUP BY {LABEL}"
    crossed = [f"SUM({name} * {TARGET})" for name in FEATURES] if model == "linear regression" else []
    return f"SELECT {', '.join([*sums, *products(FEATURES), *crossed])} FROM wide"


def main(request: dict[str, Any]) -> None:
    asked: list[tuple[Any, Any]] = []
    if "lab" in request:
        import sfumato as sf
        from sfumato import learn  # noqa: F401  loading scikit-learn is no part of a fit

        lab = sf.open(request["lab"])
        asked = recorded(lab)
        fit = fitted_in_rounds if request["model"] in ROUNDS else fitted
        cost = timed(lambda: fit(lab, request["model"]))
    else:
        import duckdb

        with duckdb.connect(request["database"], read_only=True) as connection:
            if request["model"] in ROUNDS:
                cost = timed(lambda: plain_rounds(connection, request["model"]))
            else:
                cost = timed(lambda: connection.sql(plain(request["model"])).to_arrow_table())
    answer = {"cpu": cost.cpu, "wall": cost.wall, "peak": peak_megabytes(), "scans": len(asked)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
