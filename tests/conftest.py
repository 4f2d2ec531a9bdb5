"""Shared by all tests: seeded randomness, groups and order of tests, real data, and what a skip means."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy.random  # noqa: F401  draws when it is imported, which must not shift the draws of a test
import pytest
from hypothesis import HealthCheck, settings
from seeded import seeded_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

ROOT = Path(__file__).parent.parent

# Tests run side by side, and threads of both would wait for each other. Workers inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell that starts the suite in the background has it ignore Ctrl-C, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No test depends on a clock or on luck. Hypothesis would fail examples that take longer than 200 ms, which on
# a busy machine any may, and would draw others in each run.
settings.register_profile(
    "sfumato", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("sfumato")


# Interpreters that tests start import `sitecustomize` from here, which seeds them.
_paths = [str(ROOT / "tests" / "seeding"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, _paths)))

LONG = ("spark", "web", "tests/docs/test_snippets.py", "tests/unit/synth/images/test_diffusion.py")
"""Groups to start with, so that no worker is left with a long one at the end."""


SECONDS_TO_EXIT = 300


def pytest_configure(config: pytest.Config) -> None:
    """Let workers exit by themselves, so that their exit handlers remove what they hold.

    xdist kills a worker after 10 s, and a worker that is still busy when it is told to exit ends itself after
    15 s. On a busy machine both are too short.
    """
    if not config.pluginmanager.hasplugin("xdist"):
        return
    from execnet.gateway_base import WorkerGateway
    from xdist.workermanage import NodeManager

    NodeManager.EXIT_TIMEOUT = SECONDS_TO_EXIT
    interrupt = WorkerGateway._terminate_execution

    def wait_then_interrupt(gateway: Any) -> None:
        gateway._execpool.trigger_shutdown()
        gateway._execpool.waitall(SECONDS_TO_EXIT)
        interrupt(gateway)

    WorkerGateway._terminate_execution = wait_then_interrupt


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", action="store_true", help="write the recorded texts anew")
    parser.addoption("--unseeded", action="store_true", help="draw noise from the operating system")
    parser.addoption("--shuffle", metavar="SEED", help="run groups, and the tests of each, in a random order")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each file to one worker, and all tests with Spark or with a browser to one worker each."""
    groups = {item: _group(item) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    seed = config.getoption("--shuffle")
    if seed is not None:
        chance = random.Random(seed)
        chance.shuffle(items)
        places = {group: chance.random() for group in sorted({*groups.values()})}
        items.sort(key=lambda item: places[groups[item]])
    items.sort(key=lambda item: LONG.index(groups[item]) if groups[item] in LONG else len(LONG))


def _group(item: pytest.Item) -> str:
    if item.get_closest_marker("with_spark") or "spark" in getattr(item, "fixturenames", ()):
        return "spark"
    file = item.nodeid.partition("::")[0]
    return "web" if file.startswith("tests/web/") else file


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tests and modules stay to the end, so no search for garbage looks through them, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Processes side by side import the files of a folder from different ones on.

    Each then compiles some of them and reads the others, where all would compile the same at the same time.
    """
    report = yield
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    files = [node for node in report.result or () if isinstance(node, pytest.Module)]
    first = len(files) * worker // workers
    for file in files[first:] if first else ():
        try:
            _ = file.obj
        except (Exception, pytest.skip.Exception):
            _forget(file.path)
    return report


def _forget(path: Path) -> None:
    """Have a file imported anew, and what is wrong with it told, when its tests are collected."""
    for name in [name for name, module in sys.modules.items() if _source(module) == str(path)]:
        del sys.modules[name]


def _source(module: object) -> str | None:
    return vars(module).get("__file__") if isinstance(module, ModuleType) else None


@pytest.fixture(scope="session", autouse=True)
def _allow_losses() -> None:
    """Register tables whatever values they lose: many tests hold values that no declaration fits."""
    from sfumato.lab.tables import report

    report.VALUES_CONFIRMED = 1.0


@pytest.fixture
def usual_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse a column that loses more than 5 % of its values, as outside of tests."""
    monkeypatch.setattr("sfumato.lab.tables.report.VALUES_CONFIRMED", 0.05)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Seed what a test draws, whatever ran before it."""
    if item.config.getoption("--unseeded"):
        return (yield)
    with seeded_bytes(f"{item.path.relative_to(ROOT).as_posix()} {item.name}"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Seed what a shared fixture draws, whichever test needs it first."""
    if fixturedef.scope == "function" or request.config.getoption("--unseeded"):
        return (yield)
    with seeded_bytes(f"{fixturedef.baseid} {fixturedef.argname} {request.param_index}"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skip says what a desk lacks. Where CI=true everything has to be there, so a skip is a failure."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped: {report.longrepr}"
    return report


def pytest_sessionfinish() -> None:
    gc.unfreeze()  # or libraries report objects at exit that were not freed
    servers = sys.modules.get("tests.conformance.servers")
    if servers is not None:
        servers.end_all()


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets: SFUMATO_DATA, else `shared/data` beside the project."""
    named = os.environ.get("SFUMATO_DATA")
    return _found(Path(named) if named else ROOT.parent / "shared" / "data")


@pytest.fixture(scope="session")
def data_file(data_folder: Path) -> Callable[[str], Path]:
    """A file of the data folder by its name there, such as "adult/adult.data.gz"."""
    return lambda name: _found(data_folder / name)


def _found(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"REAL DATA IS MISSING: no {path.name}; set SFUMATO_DATA to the data folder")
    return path
