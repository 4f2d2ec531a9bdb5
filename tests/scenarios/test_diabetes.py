"""The README's lines on real hospital stays, as they stand there."""

import os
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("SFUMATO_DATA", ROOT.parent / "shared" / "data")) / "diabetes130"


@pytest.mark.skipif(not DATA.exists(), reason="the diabetes130 data set is not there: set SFUMATO_DATA")
def test_fifteen_lines_from_a_real_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = next(
        each for each in re.findall(r"```python no-run\n(.*?)```", page, re.S) if "diabetes130" in each
    )
    assert len([line for line in lines.splitlines() if line.strip()]) <= 15
    (tmp_path / "diabetes130").mkdir()
    shutil.copy(DATA / "diabetic_data.parquet", tmp_path / "diabetes130")
    monkeypatch.chdir(tmp_path)
    exec(compile(lines, "README.md", "exec"), {})
    shown = capsys.readouterr().out
    stays = {key: int(n.replace(",", "")) for key, n in re.findall(r"(\[[0-9-]+\)) +(-?[\d,]+)", shown)}
    assert len(stays) == 10
    # 26,068 stays at 70-80, of which those beyond a patient's third are left out
    assert 23_000 < stays["[70-80)"] < 26_500
    assert "InternalMedicine" in shown
    assert "Charged ε = 1 to patient_nbr" in shown
