"""The command line: text, JSON and exit codes, end to end."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import sfumato as sf
from sfumato.cli import clinic
from sfumato.cli.main import main

COUNT = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def lab(tmp_path: Path) -> str:
    return make_lab(tmp_path)


@pytest.fixture(scope="module")
def unspent(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One lab for all tests that charge and change nothing."""
    return make_lab(tmp_path_factory.mktemp("unspent"))


def make_lab(parent: Path) -> str:
    folder = str(parent / "clinic")
    pq.write_table(clinic.visits(100, 400), parent / "visits.parquet")
    assert run("init", folder).exit_code == 0
    added = run(
        "table", "add", "visits", str(parent / "visits.parquet"), "--lab", folder,
        "--unit", "patient_id", "--max-rows", "10",
        "--between", "age", "0", "110", "--one-of", "ward", "A,B,C", "--one-of", "readmitted", "0,1",
        "--epsilon", "1",
    )  # fmt: skip
    assert added.exit_code == 0, added.output
    return folder


def _json(result: Result) -> object:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_tables(unspent: str) -> None:
    assert "visits" in run("table", "list", "--lab", unspent).stdout
    shown = _json(run("table", "show", "visits", "--lab", unspent, "--json"))
    assert shown["population"] == "patient_id"  # type: ignore[index]
    # Type: ignore[attr-defined].
    assert [each["name"] for each in _json(run("table", "list", "--lab", unspent, "--json"))] == ["visits"]


def test_quote_ask_and_ask_again(lab: str) -> None:
    quote = _json(run("quote", COUNT, "--lab", lab, "--epsilon", "0.5", "--json"))
    assert quote["share"] == 0.5  # type: ignore[index]
    first = _json(run("ask", COUNT, "--lab", lab, "--epsilon", "0.5", "--json"))
    again = _json(run("ask", COUNT, "--lab", lab, "--epsilon", "0.5", "--json"))
    assert first["columns"] == again["columns"]  # type: ignore[index]
    assert first["receipt"]["charged"] == "ε = 0.5"  # type: ignore[index]
    assert again["receipt"] == {**first["receipt"], "replayed": True}  # type: ignore[index]
    told = run("ask", COUNT, "--lab", lab, "--epsilon", "0.5").stdout
    entry = first["receipt"]["entry"]  # type: ignore[index]
    assert f"Free: the same answer as in ledger entry {entry}, which was charged ε = 0.5" in told
    over = run("ask", COUNT, "--lab", lab, "--epsilon", "0.5", "--then", "SELECT COUNT(*) AS k FROM answer")
    lines = over.stdout.splitlines()
    assert lines[0] == told.splitlines()[0]
    assert any(line.split()[:1] == ["k"] for line in lines[1:])
    both = _json(run("ask", COUNT, "--lab", lab, "--epsilon", "0.5", "--then", "FROM answer", "--json"))
    assert set(both["columns"]) == set(first["columns"])  # type: ignore[index]
    assert both["answer"]["columns"] == first["columns"]  # type: ignore[index]
    for asked in ([COUNT, COUNT], ["SHOW TABLES"]):
        refused = run("ask", *asked, "--lab", lab, "--epsilon", "0.1", "--then", "FROM answer")
        assert refused.exit_code
        assert "SF-Q" in refused.stderr
    left = _json(run("budget", "--lab", lab, "--json"))
    assert left["population:patient_id"]["left_epsilon"] == 0.5  # type: ignore[index]


def test_tuning_is_priced_charged_once_and_asked_with(tmp_path: Path) -> None:
    folder, source = str(tmp_path / "clinic"), str(tmp_path / "visits.parquet")
    pq.write_table(clinic.visits(2000, 9000), source)
    run("init", folder)
    added = run(
        "table", "add", "visits", source, "--lab", folder, "--unit", "patient_id", "--max-rows", "choose:0.5",
        "--between", "cost", "choose", "0.25", "--whole", "age", "choose", "0.25", "--one-of", "ward", "A,B",
        "--epsilon", "4",
    )  # fmt: skip
    assert added.exit_code == 0, added.output
    for words in ("max_rows = ", "of 'cost' were chosen privately (ε = 0.25", "of 'age' were chosen"):
        assert words in added.stdout
    total = "SELECT ward, SUM(cost) AS c FROM visits GROUP BY ward"
    tuned = (total, "--lab", folder, "--tune", "0.25", "--epsilon", "1")
    priced = run("quote", *tuned)
    assert priced.stdout.startswith("Not tuned yet")
    assert "ε = 0.25" in priced.stdout
    picked = _json(run("tune", total, "--lab", folder, "--epsilon", "0.25", "--for-epsilon", "1", "--json"))
    again = run("tune", total, "--lab", folder, "--epsilon", "0.25", "--for-epsilon", "1")
    assert picked["picked"] in again.stdout  # type: ignore[index]
    assert "Free: the same answer" in again.stdout
    assert f"bounds  {picked['picked']}" in run("quote", *tuned).stdout  # type: ignore[index]
    answer = run("ask", *tuned)
    assert "Estimated bias: about" in answer.stdout
    left = _json(run("budget", "--lab", folder, "--json"))
    assert left["population:patient_id"]["left_epsilon"] == 1.75  # type: ignore[index]
    clipped = (
        "SELECT AVG(cost * age) AS c FROM visits",
        "--lab",
        folder,
        "--epsilon",
        "0.5",
        "--clip",
        "auto",
    )
    assert "chosen privately, for ε = 0.05 of the price" in run("quote", *clipped).stdout
    assert _json(run("budget", "--lab", folder, "--json")) == left
    (said,) = (each for each in _json(run("ask", *clipped, "--json"))["bias"] if "clipped" in each)  # type: ignore[index]
    assert said.startswith("Values of c are clipped to ")
    left = _json(run("budget", "--lab", folder, "--json"))
    assert left["population:patient_id"]["left_epsilon"] == 1.25  # type: ignore[index]
    assert run("ask", *clipped, "--tune", "0.1").exit_code == 2
    short = run(
        "ask", "SELECT COUNT(*) AS n FROM visits", "--lab", folder, "--tune", "0.25", "--epsilon", "1.1"
    )
    assert short.exit_code == 3
    assert "--epsilon 1 or less for the question" in short.stderr
    assert _json(run("budget", "--lab", folder, "--json")) == left
    moved = run("table", "advance", "visits", source, "--lab", folder, "--max-rows", "choose:0.5")
    assert moved.exit_code == 0, moved.output
    for wrong, code in (
        (
            ("ask", total, "--lab", folder, "--tune", "0.1"),
            2,
        ),  # how much to spend is missing: nothing is tuned
        (("tune", f"{total} UNION ALL {total}", "--lab", folder, "--epsilon", "0.1"), 4),
        (
            (
                "table",
                "check",
                "x",
                source,
                "--lab",
                folder,
                "--unit",
                "patient_id",
                "--max-rows",
                "choose:1",
            ),
            2,
        ),
        (("table", "add", "x", source, "--lab", folder, "--unit", "patient_id", "--max-rows", "choose:"), 2),
    ):
        assert run(*wrong).exit_code == code, wrong
    left = _json(run("budget", "--lab", folder, "--json"))
    assert left["population:patient_id"]["left_epsilon"] == 0.75  # type: ignore[index]


def test_what_is_published_is_charged_once_and_read_for_nothing(lab: str) -> None:
    assert "Nothing" in run("published", "--lab", lab).stdout
    paid = _json(run("publish", COUNT, "--lab", lab, "--epsilon", "0.25", "--json"))
    (read,) = _json(run("published", "--lab", lab, "--json"))  # type: ignore[misc]
    assert read["question"] == COUNT
    assert read["answer"]["columns"] == paid["columns"]  # type: ignore[index]
    assert COUNT in run("published", "--lab", lab).stdout
    left = _json(run("budget", "--lab", lab, "--json"))
    assert left["population:patient_id"]["left_epsilon"] == 0.75  # type: ignore[index]


@pytest.mark.parametrize("ending", ["png", "json"])
def test_ask_draws(lab: str, tmp_path: Path, ending: str) -> None:
    picture = tmp_path / f"answer.{ending}"
    assert run("ask", COUNT, "--lab", lab, "--epsilon", "0.1", "--plot", str(picture)).exit_code == 0
    assert picture.stat().st_size > 500


def test_exit_codes(unspent: str, tmp_path: Path) -> None:
    assert run("ask", COUNT, "--lab", unspent, "--epsilon", "2").exit_code == 3
    assert run("ask", "SELECT * FROM visits", "--lab", unspent, "--epsilon", "1").exit_code == 4
    assert run("ask", COUNT, "--lab", unspent, "--as", "bob", "--epsilon", "1").exit_code == 4
    assert run("ask", COUNT, "--lab", unspent).exit_code == 2
    assert run("ask", COUNT, "--lab", str(tmp_path / "nowhere"), "--epsilon", "1").exit_code == 2
    assert run("ask", COUNT, "--lab", unspent, "--epsilon", "many").exit_code == 2


def test_errors_as_json(unspent: str) -> None:
    refused = run("ask", COUNT, "--lab", unspent, "--epsilon", "2", "--json")
    assert json.loads(refused.stderr)["code"] == "SF-B101"
    assert refused.stdout == ""


def test_quotas(lab: str) -> None:
    assert run("user", "grant", "ada", "--lab", lab, "--epsilon", "0.2").exit_code == 0
    assert run("ask", COUNT, "--lab", lab, "--as", "ada", "--epsilon", "0.3").exit_code == 3
    assert run("ask", COUNT, "--lab", lab, "--as", "ada", "--epsilon", "0.2").exit_code == 0


def test_ledger(lab: str, tmp_path: Path) -> None:
    run("ask", COUNT, "--lab", lab, "--epsilon", "0.1")
    assert "charge" in run("ledger", "list", "--lab", lab).stdout
    assert len(_json(run("ledger", "list", "--lab", lab, "--json"))) == 5  # type: ignore[arg-type]
    assert _json(run("ledger", "verify", "--lab", lab, "--json"))["entries"] == 5  # type: ignore[index]
    assert "5 entries" in run("ledger", "verify", "--lab", lab).stdout
    assert run("ledger", "export", "--lab", lab).stdout.count('"seq"') == 5
    assert run("ledger", "export", "--lab", lab, "--output", str(tmp_path / "out.jsonl")).exit_code == 0
    assert (tmp_path / "out.jsonl").read_text().count('"seq"') == 5


def test_explain() -> None:
    assert "73 in 100" in run("explain", "--epsilon", "1").stdout
    assert run("explain", "sf-b101").stdout.startswith("SF-B101")
    assert run("explain", "nonsense").exit_code == 2
    # Type: ignore[index].
    assert _json(run("explain", "--epsilon", "1", "--prior", "0.1", "--json"))["prior"] == 0.1


def test_a_picture_that_cannot_be_saved_is_refused_before_the_charge(unspent: str, tmp_path: Path) -> None:
    for target in ("answer.jpg", "nowhere/answer.png"):
        refused = run("ask", COUNT, "--lab", unspent, "--epsilon", "0.1", "--plot", str(tmp_path / target))
        assert refused.exit_code == 2
    assert _json(run("ledger", "verify", "--lab", unspent, "--json"))["charges"] == 0  # type: ignore[index]


def test_two_units_of_protection_are_refused(unspent: str) -> None:
    source = str(Path(unspent).with_name("visits.parquet"))
    both = run(
        "table", "add", "more", source, "--lab", unspent, "--row", "--unit", "patient_id", "--max-rows", "2"
    )
    assert both.exit_code == 2


def test_the_steward_reads_what_was_asked(lab: str) -> None:
    run("ask", COUNT, "--lab", lab, "--epsilon", "0.1")
    assert COUNT in run("ledger", "export", "--lab", lab).stdout


def test_graphs_are_listed_and_shown(tmp_path: Path) -> None:
    lab = str(tmp_path / "town")
    edges = pa.table({"from": [1, 2], "to": [2, 3]})
    unit = sf.Node("from", "to", max_degree=5)
    sf.create(lab).register("friends", edges, unit=unit, budget=sf.Budget(epsilon=1))
    assert "node of friends" in run("table", "list", "--lab", lab).stdout
    assert "one node with all its edges, of which at most 5 are used" in (
        run("table", "show", "friends", "--lab", lab).stdout
    )
    shown = _json(run("table", "show", "friends", "--lab", lab, "--json"))
    assert shown["unit"]["max_degree"] == 5  # type: ignore[index]


def test_an_auditor_reads_a_copy_and_accepts_nothing(lab: str, tmp_path: Path) -> None:
    assert run("ask", COUNT, "--lab", lab, "--epsilon", "0.5").exit_code == 0
    copy, told = str(tmp_path / "copy"), str(tmp_path / "receipt.json")
    shutil.copytree(lab, copy)
    names = sorted(path.name for path in Path(copy).iterdir())
    Path(told).write_text(json.dumps({"head": sf.open(lab).ledger.verify().head}), encoding="utf-8")
    for command in (
        ("ledger", "verify"), ("ledger", "list"), ("ledger", "export"), ("ledger", "key"),
        ("ledger", "receipt"), ("ledger", "check-receipt", told), ("budget",),
    ):  # fmt: skip
        here, there = run(*command, "--lab", lab), run(*command, "--lab", copy)
        assert there.exit_code == 0, there.output
        assert there.stdout == here.stdout
    assert "private copy" in run("ledger", "verify", "--lab", copy).stderr
    assert "SF-L131" in run("ask", COUNT, "--lab", copy, "--epsilon", "0.1").stderr
    assert sorted(path.name for path in Path(copy).iterdir() if path.name[-4:] not in ("-wal", "-shm")) == [
        name for name in names if name[-4:] not in ("-wal", "-shm")
    ]


def test_the_next_step_after_a_lost_ledger_is_not_the_same_command(lab: str) -> None:
    Path(lab, "ledger.sqlite").unlink()
    said = run("ledger", "verify", "--lab", lab).stderr
    assert "SF-L106" in said
    assert "ledger restore" in said


def test_several_questions_are_asked_together(lab: str) -> None:
    asked = (COUNT, "SELECT COUNT(*) AS n FROM visits", "--lab", lab, "--epsilon", "0.4", "--json")
    quote = _json(run("quote", *asked))
    assert quote["price"] == "ε = 0.4"  # type: ignore[index]
    wards, total = _json(run("ask", *asked))  # type: ignore[misc]
    assert sum(wards["columns"]["n"]) == total["columns"]["n"][0]
    again = run("ask", *asked[:-1])
    assert again.stdout.count("Free: the same answer") == 2
