"""What commands print: texts of analysts as they are, and nothing that a terminal would obey."""

import ast
import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import sfumato as sf
from sfumato.cli import output
from sfumato.cli.main import main
from sfumato.errors import missing_extra

HOSTILE = "[/a] [bold]b[/] \x1b]0;title\x07 \x9b31m \u202e"
COUNT = "SELECT COUNT(*) AS n FROM visits"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def lab(tmp_path: Path) -> sf.Lab:
    lab = sf.create(tmp_path / "lab")
    visits = pa.table({"who": [1, 2], "z": ["a", "b"]})
    columns = {"z": sf.one_of("a", "b")}
    lab.register("visits", visits, unit=sf.Unit("who", max_rows=1), columns=columns, budget=sf.Budget(4))
    return lab


@pytest.mark.parametrize("text", [*HOSTILE.split(" "), HOSTILE])
def test_no_text_of_an_analyst_breaks_or_commands_the_list(lab: sf.Lab, text: str) -> None:
    lab.session().sql(f"{COUNT} /* {text} */").release(epsilon=0.1)
    for more in ([], ["--json"]):
        listed = run("ledger", "list", "--lab", str(lab.folder), *more)
        assert listed.exit_code == 0, listed.exception
        assert not {*"\x1b\x07\x9b\u202e"} & {*listed.stdout}
    asked = json.loads(json.loads(listed.stdout)[-2]["body"])["about"]["question"]
    assert text in asked


def test_markup_is_printed_and_not_read(lab: sf.Lab) -> None:
    question = f"{COUNT} /* [/a] */"
    assert run("publish", question, "--lab", str(lab.folder), "--epsilon", "0.1").exit_code == 0
    # A table breaks lines, so spaces may differ.
    shown = "".join(run("ledger", "list", "--lab", str(lab.folder)).stdout.split())
    assert "[/a]" in shown
    assert question in run("published", "--lab", str(lab.folder)).stdout


def test_what_to_install_is_not_read_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_styled(missing_extra("plot", "It is missing."), "yellow")
    assert 'pip install "sfumato[plot]"' in capsys.readouterr().out


def test_commands_print_through_one_module_alone() -> None:
    room = Path(output.__file__).parent
    for file in room.glob("*.py"):
        if file.name == "output.py":
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        called = {
            node.func.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        imported = {
            each.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for each in node.names
        }
        assert "print" not in called, file.name
        assert not {"Console", "_console", "echo", "secho"} & imported, file.name


def test_a_hint_to_the_steward_is_a_sentence(lab: sf.Lab, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("pid\n1\n2\n")
    add = ["table", "add", "more", str(tmp_path / "more.csv"), "--lab", str(lab.folder), "--epsilon", "1"]
    with pytest.warns(sf.errors.StewardWarning, match="new population, 'pid'.*'who'"):
        lab.register("pets", pa.table({"pid": [1]}), unit=sf.Unit("pid", max_rows=1), budget=sf.Budget(1))
    lab.drop("pets")
    # The account outlives the table, so the same name is no longer new.
    again = run(*add, "--unit", "pid", "--max-rows", "1")
    assert again.exit_code == 0, again.output
    assert "population" not in again.stderr
    assert run("table", "drop", "more", "--lab", str(lab.folder)).exit_code == 0
