"""The command that trains an estimator of the closed list on a table and saves the model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

import sfumato as sf
from sfumato.cli.output import as_json, lab_option, print_text, show_json
from sfumato.cli.questions import analyst_option
from sfumato.errors import UsageError


@click.command()
@click.argument("estimator", required=False)
@click.argument("table", required=False)
@lab_option
@analyst_option
@click.option("--features", default="", help="Columns to learn from, with commas between them.")
@click.option("--target", help="Column to predict.")
@click.option("--epsilon", type=float, help="ε to spend.")
@click.option("--delta", type=float, help="δ to spend, together with --epsilon.")
@click.option("--rho", type=float, help="ρ (zCDP) to spend.")
@click.option("--set", "parameters", nargs=2, multiple=True, metavar="NAME VALUE", help="Another parameter.")
@click.option("--split", nargs=2, metavar="SHARE PART", help="Learn from a part alone, such as 0.8 train.")
@click.option("--rows-per-unit", type=int, help="Rows of each unit that count; without it, one.")
@click.option("--output", help="A new .npz file for the model.")
@as_json
def fit(
    estimator: str | None, table: str | None, folder: str, features: str, as_json: bool, **typed: Any
) -> None:
    """Train ESTIMATOR on TABLE, charged first, print its guarantee and save it; without both, list them.

    Its bounds and classes come from the catalog.
    """
    if estimator is None:
        _list(as_json)
        return
    names = [name.strip() for name in features.split(",") if name.strip()]
    FitCommand(estimator, table or "", folder, tuple(names), as_json, **typed).run()


@dataclass(frozen=True, slots=True)
class FitCommand:
    """One call of the command, as it was typed."""

    estimator: str
    table: str
    folder: str
    features: tuple[str, ...]
    as_json: bool
    analyst: str | None
    target: str | None
    epsilon: float | None
    delta: float | None
    rho: float | None
    parameters: tuple[tuple[str, str], ...]
    split: tuple[str, str] | None
    rows_per_unit: int | None
    output: str | None

    def run(self) -> None:
        """Check everything that can be checked, charge, learn, save and say what is promised."""
        path = self._check_output()
        model, session = self._make_model(), sf.open(self.folder).session(self.analyst)
        share = None if self.split is None else (float(parse_value(self.split[0])), self.split[1])
        said: dict[str, Any] = {"table": self.table, "features": self.features, "target": self.target}
        fitted = session.fit(model, **said, rows_per_unit=self.rows_per_unit, split=share)
        if path is not None:
            fitted.save(path)
        if self.as_json:
            saved = None if path is None else str(path)
            show_json({"guarantee": fitted.guarantee_.to_dict(), "output": saved})
        else:
            print_text(f"{type(fitted).__name__}\n{fitted.guarantee_}")
            print_text("The model was not saved: --output model.npz" if path is None else f"saved to {path}")

    def _check_output(self) -> Path | None:
        if not self.table:
            raise UsageError(
                "SF-U104", "Say which table to learn from.", try_=f"sfumato fit {self.estimator} visits …"
            )
        path = None if self.output is None else Path(self.output)
        if path is not None and (path.suffix != ".npz" or path.exists() or not path.parent.is_dir()):
            raise UsageError(
                "SF-U102", "A model is saved to a new .npz file in a folder that exists.", got=str(path)
            )
        return path

    def _make_model(self) -> Any:
        typed = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}
        spend = {name: value for name, value in typed.items() if value is not None}
        kind = find_estimator(self.estimator)
        others = {name.replace("-", "_"): parse_value(value) for name, value in self.parameters}
        try:
            return kind(**spend, **others)
        except TypeError:
            raise UsageError(
                "SF-E187", f"{kind.__name__} has no such parameter, or one is missing.", got=", ".join(others)
            ) from None


def find_estimator(name: str) -> Any:
    """Return an estimator of the closed list by its name, in whatever case and with dashes or without."""
    known = {each.casefold(): each for each in sf.learn.ESTIMATORS}
    found = known.get(name.replace("-", "").replace("_", "").casefold())
    if found is None:
        raise UsageError(
            "SF-E187", "There is no such estimator.", got=name[:80], known=", ".join(known.values())
        )
    return getattr(sf.learn, found)


def parse_value(text: str) -> Any:
    """Return the number, list, true, false or null that JSON reads in a text, or else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _list(as_json: bool) -> None:
    names = list(sf.learn.ESTIMATORS)
    show_json(names) if as_json else print_text("\n".join(names))
