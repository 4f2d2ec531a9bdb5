from pathlib import Path

import pytest

import sfumato as sf
from sfumato.cli import clinic

COLUMNS = {
    "age": sf.between(0, 110),
    "cost": sf.between(0, 5000),
    "ward": sf.one_of("A", "B", "C"),
    "readmitted": sf.one_of(0, 1),
}


@pytest.fixture
def small_lab(tmp_path: Path) -> sf.Lab:
    lab = sf.create(tmp_path / "clinic")
    lab.register(
        "visits",
        clinic.visits(patients=200, rows=900),
        unit=sf.Unit("patient_id", max_rows=20),
        columns=COLUMNS,
        budget=sf.Budget(epsilon=1),
    )
    return lab
