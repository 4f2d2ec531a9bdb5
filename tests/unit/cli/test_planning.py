"""`sfumato plan`, `fit` and `reproduce`: what they say, as JSON too, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import sfumato as sf
from sfumato.cli import clinic, reproduce
from sfumato.cli.main import main
from sfumato.errors import UsageError

COUNT = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
OTHER = COUNT.replace("GROUP", "WHERE age >= 65 GROUP")
VERBS = (
    "init table user budget quote ask publish published fit synth stream ledger attack audit plan reproduce"
)
WORK = "explain doctor request charge package"


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    lab = sf.create(tmp_path / "lab")
    columns = {
        "age": sf.between(0, 110),
        "cost": sf.between(0, 5000),
        "ward": sf.one_of(*clinic.WARDS),
        "readmitted": sf.one_of(0, 1),
    }
    unit, budget = sf.Unit("patient_id", max_rows=5), sf.Budget(8, 1e-6)
    lab.register("visits", clinic.visits(200, 600), unit=unit, columns=columns, budget=budget)
    return lab


def run(*words: str, **more: Any) -> Result:
    return CliRunner().invoke(main, list(words), **more)


def found(*words: str, **more: Any) -> Any:
    result = run(*words, "--json", **more)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_sample_sizes_and_errors() -> None:
    words = ("plan", "size", "--epsilon", "1", "--queries", "5")
    assert found(*words, "--error", "0.01")["people"] == 500
    assert found(*words, "--people", "500")["error"] == 0.01
    assert "500 people" in run(*words, "--error", "0.01").stdout
    assert run(*words).exit_code == run(*words, "--error", "1", "--people", "1").exit_code == 2
    assert run(*words, "--error", "-1").exit_code == 2


def test_many_questions_are_priced_together_and_nothing_is_charged(lab: sf.Lab) -> None:
    place = ("--lab", str(lab.folder))
    asked = f"{COUNT};\n\nSELECT AVG(cost) AS c FROM visits; {COUNT};"
    plan = found("plan", "questions", "-", *place, "--epsilon", "2", "--rows", "50", input=asked)
    assert [each["price"] for each in plan["questions"]] == ["ε = 2", "ε = 2", "nothing"]
    assert [each["share"] for each in plan["totals"]] == [0.5]
    assert plan["admitted"]
    dear = run("plan", "questions", "-", *place, "--epsilon", "5", input=asked)
    assert dear.exit_code == 3
    assert "not enough is left" in dear.stdout
    assert max(map(len, dear.stdout.splitlines())) > 80  # one line for each question, however long
    union = run("plan", "questions", "-", *place, "--epsilon", "1", input=f"{COUNT} UNION ALL {OTHER}")
    assert "SF-Q161" in union.stderr
    assert run("plan", "questions", "-", *place, "--epsilon", "1", input=" ; ").exit_code == 2
    assert (
        run("plan", "questions", "-", *place, "--epsilon", "1", input="SELECT * FROM visits").exit_code == 4
    )
    assert lab.verify().charges == 0


def test_a_model_is_trained_and_saved(lab: sf.Lab, tmp_path: Path) -> None:
    model = tmp_path / "model.npz"
    words = ("fit", "gaussian-nb", "visits", "--lab", str(lab.folder), "--features", "age,cost")
    spend = ("--target", "readmitted", "--epsilon", "0.5", "--output", str(model))
    trained = found(*words, *spend)
    assert trained["guarantee"]["epsilon"] == 0.5
    assert type(sf.learn.load(model)).__name__ == "GaussianNB"
    charges = lab.verify().charges
    for more in (spend, ("--output", str(tmp_path / "m.pkl")), ("--set", "priors-of-mine", "3")):
        assert run(*words, *more).exit_code == 2, more
    assert run("fit", "os.system", "visits").exit_code == 2
    assert run("fit", "Lasso").exit_code == 2
    assert lab.verify().charges == charges
    assert "LogisticRegression" in found("fit")


def test_experiments_that_need_the_source_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "_CURVES", Path("nowhere"))
    assert run("reproduce", "curves").exit_code == 2
    with pytest.raises(UsageError, match="SF-C202"):
        reproduce._load_curves()


def test_learning_curves_on_few_rows() -> None:
    cells = found("reproduce", "curves", "--rows", "200", "--restarts", "2")
    assert {each["method"] for each in cells} == {"output", "output, own λ", "objective", "no noise"}
    assert {each["rows"] for each in cells} == {200}


def test_every_verb_of_the_design_is_there_and_speaks_json() -> None:
    """Verbs that print one document have --json; `survey` and `serve` come from their own rooms."""
    for verb in f"{VERBS} {WORK}".split():
        command = main.commands[verb]
        parts = getattr(command, "commands", {verb: command})
        speaks = [any("--json" in each.opts for each in part.params) for part in parts.values()]
        assert any(speaks), verb
