from pathlib import Path

import pytest

import sfumato as sf
from sfumato.curator.catalog.catalog import Catalog, declare_table

COLUMNS = {
    "age": sf.between(0, 110),
    "cost": sf.between(0, 5000),
    "ward": sf.one_of("A", "B", "C"),
    "readmitted": sf.one_of(0, 1),
    "insured": sf.one_of(True, False),
    "stay days": sf.between(-1, 60, step=1),
}


def catalog_in(folder: Path) -> Catalog:
    """A catalog with one table, `visits`."""
    catalog = Catalog(folder / "catalog.json")
    catalog.add_table(declare_table("visits", sf.Unit("patient_id", max_rows=20), COLUMNS))
    return catalog


@pytest.fixture(scope="session")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return catalog_in(tmp_path_factory.mktemp("lab"))
