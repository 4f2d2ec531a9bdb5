import pytest

import sfumato as sf
from sfumato.curator.catalog import Catalog, Table, declared


@pytest.fixture(scope="session")
def visits() -> Table:
    return declared(
        "visits",
        sf.Unit("patient_id", max_rows=20),
        {
            "age": sf.between(0, 110),
            "cost": sf.between(0, 5000),
            "ward": sf.one_of("A", "B", "C"),
            "readmitted": sf.one_of(0, 1),
            "insured": sf.one_of(True, False),
            "stay days": sf.between(-1, 60, step=1),
        },
    )


@pytest.fixture(scope="session")
def catalog(visits: Table, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    catalog = Catalog(tmp_path_factory.mktemp("lab") / "catalog.json")
    catalog.add(visits)
    return catalog
