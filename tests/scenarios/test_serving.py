"""Real server processes: several on one budget, killed while they answer, and never a charge too many."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from tests.conformance import servers

import sfumato as sf
from free_port import reserve_port
from serving import make_rows
from sfumato.cli.main import main
from sfumato.server.people import PeopleStore
from sfumato.server.serving import ServeOptions, is_loopback
from waiting import PATIENCE, wait_until

ALLOWED = 12
"""Questions of ε = 0.25 that the budget pays for."""
COUNTED = r'sfumato_requests_total\{method="POST",route="/api/release",status="\d+"\} (\d+)'


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--host", "0.0.0.0"], "Without TLS the server listens on this machine only."),
        (["--host", "192.0.2.1", "--port", "443"], "Without TLS the server listens on this machine only."),
        (["--behind-proxy"], "Behind a proxy the server has to be told its public address."),
        (["--behind-proxy", "--address", "http://lab.example.org"], "Behind a proxy the server"),
        (["--tls-cert", __file__], "TLS needs a certificate and its key."),
    ],
)
def test_nothing_crosses_a_network_in_the_clear(tmp_path: Path, options: list[str], sentence: str) -> None:
    sf.create(tmp_path / "lab").ledger.close()
    result = CliRunner().invoke(main, ["serve", str(tmp_path / "lab"), *options])
    assert result.exit_code == 2
    assert f"SF-W130  {sentence}" in result.stderr
    assert not (tmp_path / "lab" / "people.sqlite").exists()


def test_loopback_and_addresses() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "::1", "localhost", "127.8.8.8")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "localhost.example.org", "")))
    assert ServeOptions("x", host="::1").public_address == "http://[::1]:8000"
    tls = ServeOptions("x", host="lab.example.org", port=443, certificate="a", private_key="b")
    tls.require_safe()
    assert tls.make_settings().is_secure
    ServeOptions("x", host="0.0.0.0", behind_proxy=True, address="https://lab.example.org/").require_safe()


def test_tokens_are_made_and_ended_on_the_command_line(tmp_path: Path) -> None:
    folder = str(tmp_path / "lab")
    sf.create(folder).ledger.close()
    made = CliRunner().invoke(main, ["user", "token", "ada", "--lab", folder, "--json"])
    token = json.loads(made.stdout)["token"]
    people = PeopleStore(tmp_path / "lab" / "people.sqlite")
    found = people.find_holder(token)
    assert found is not None
    assert (found.name, found.role) == ("ada", "analyst")
    CliRunner().invoke(main, ["user", "token", "ada", "--role", "auditor", "--lab", folder])
    assert people.find_person("ada").role == "auditor"
    CliRunner().invoke(main, ["user", "disable", "ada", "--lab", folder])
    assert people.find_holder(token) is None
    people.close()


# ---- real processes ----------------------------------------------------------------------------------------


def make_lab(folder: Path, ledger: str | None = None) -> str:
    """Make a lab whose budget pays for so many questions, and return a token of ada's."""
    lab = sf.create(folder, ledger=ledger)
    columns: dict[str, Any] = {"age": sf.between(0, 110), "ward": sf.one_of("A", "B", "C")}
    budget = sf.Budget(epsilon=ALLOWED / 4)
    lab.register(
        "visits", make_rows(), unit=sf.Unit("patient_id", max_rows=2), columns=columns, budget=budget
    )
    lab.grant("ada", epsilon=100)
    people = PeopleStore(folder / "people.sqlite")
    people.add_person("ada", "analyst")
    token = people.make_token("ada")
    people.close()
    lab.ledger.close()
    return token


SERVE = """
import sys, uvicorn
from sfumato.cli.main import main
run = uvicorn.run
uvicorn.run = lambda app, **settings: run(sys.argv[1], **settings)
main(sys.argv[2:])
"""


@contextmanager
def serve(
    folder: Path, workers: int = 1, app: str = "ready_replies:make_ready_app"
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Yield the address and the process of `sfumato serve` with an application in which no worker is late."""
    log = folder.parent / f"{folder.name}.log"
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    with reserve_port() as port, open(log, "wb") as output:
        typed = ["serve", str(folder), "--port", str(port), "--workers", str(workers)]
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE, app, *typed],
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        address = f"http://127.0.0.1:{port}"

        def is_served() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                return httpx.get(f"{address}/healthz", timeout=PATIENCE).status_code == 200
            except httpx.TransportError:
                return False

        try:
            wait_until(is_served, "the server answers")
            yield address, process
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def ask(address: str, token: str, number: int, key: str | None = None) -> httpx.Response:
    """Release one question; a server that is killed is asked again, as a client would."""
    body = {
        "question": {"sql": f"SELECT COUNT(*) AS n FROM visits WHERE age >= {number}"},
        "spend": {"epsilon": 0.25},
    }
    sent = body if key is None else body | {"key": key}
    headers, answers = {"Authorization": f"Bearer {token}"}, list[httpx.Response]()

    def is_answered() -> bool:
        with suppress(httpx.TransportError):
            answers.append(httpx.post(f"{address}/api/release", json=sent, headers=headers, timeout=PATIENCE))
        return bool(answers)

    wait_until(is_answered, "a server answers the question")
    return answers[0]


def ask_all(addresses: list[str], token: str) -> list[httpx.Response]:
    """Ask twice as many questions as are paid for, each twice at once, at all servers in turn."""
    sent = [(number, copy) for number in range(2 * ALLOWED) for copy in range(2)]
    with ThreadPoolExecutor(8) as threads:
        asked = [
            threads.submit(ask, addresses[(number + copy) % len(addresses)], token, number, f"key {number}")
            for number, copy in sent
        ]
        return [each.result() for each in asked]


def check_totals(folder: Path, answers: list[httpx.Response]) -> None:
    answered = [each.json() for each in answers if each.status_code == 200]
    refused = [each for each in answers if each.status_code != 200]
    assert {each.json()["code"] for each in refused} <= {"SF-B101"}
    assert sum(not each["receipt"]["replayed"] for each in answered) == ALLOWED
    lab = sf.open(folder)
    verified = lab.verify()
    assert verified.charges == verified.releases == ALLOWED
    assert lab.budget.accounts[0].left_epsilon == 0
    lab.ledger.close()


@pytest.mark.slow
def test_workers_share_one_budget_and_their_log_has_no_data(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    token = make_lab(folder)
    with serve(folder, workers=2) as (address, _):
        answers = ask_all([address], token)
        steward = re.search(r"sfu_[\w-]{43}", (tmp_path / "lab.log").read_text())
        assert steward is not None
        headers = {"Authorization": f"Bearer {steward[0]}"}

        def count_requests() -> int:
            text = httpx.get(f"{address}/metrics", headers=headers, timeout=PATIENCE).text
            return sum(map(int, re.findall(COUNTED, text)))

        # Both processes count, whichever is asked for the sum. They count a request after they have answered.
        wait_until(lambda: count_requests() >= len(answers), "all requests are counted")
        assert count_requests() == len(answers)
    check_totals(folder, answers)
    log = (tmp_path / "lab.log").read_text()
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    counted = [each for each in lines if each["route"] == "/api/release"]
    assert len(counted) == len(answers) == 4 * ALLOWED
    assert "SELECT" not in log
    assert "age" not in log
    assert token not in log
    assert log.count(steward[0]) == 1  # printed once, and never logged


@pytest.mark.slow
def test_servers_of_two_machines_share_one_budget_in_postgres(tmp_path: Path) -> None:
    ledger = f"postgresql://postgres@/postgres?host={servers.running().folder}#served_{secrets.token_hex(6)}"
    token = make_lab(tmp_path / "one", ledger)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    with ExitStack() as stack:
        addresses = [stack.enter_context(serve(tmp_path / name, workers=2))[0] for name in ("one", "two")]
        answers = ask_all(addresses, token)
    check_totals(tmp_path / "one", answers)


@pytest.mark.slow
def test_killed_workers_charge_nothing_twice(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    token = make_lab(folder)
    lab, kills = sf.open(folder), 0
    with (
        serve(folder, 2, "ready_replies:make_patient_app") as (address, process),
        ThreadPoolExecutor(4) as threads,
    ):
        asked = [threads.submit(ask, address, token, number, f"key {number}") for number in range(ALLOWED)]
        for _ in range(4):
            # A question that was just charged is answered at the end of its slot. Its worker dies earlier.
            before = lab.verify().charges
            wait_until(
                lambda before=before: lab.verify().charges > before or all(each.done() for each in asked),
                "one more question is charged",
            )
            wait_until(lambda: list_workers(process), "there is a worker to kill")
            for worker in list_workers(process)[:1]:
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
                    kills += 1
        answers = [each.result() for each in asked]
    assert kills > 0
    codes = [each.json().get("code") for each in answers if each.status_code != 200]
    # A charge whose worker was killed is spent; its key says so instead of charging again.
    assert set(codes) <= {"SF-L107"}
    verified = lab.verify()
    assert verified.charges == ALLOWED
    assert verified.releases == ALLOWED - len(codes)
    lab.ledger.close()


def list_workers(process: subprocess.Popen[bytes]) -> list[int]:
    """Return the numbers of the processes that `sfumato serve` has started to answer requests."""
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
    workers = []
    for each in found.stdout.split():
        with suppress(OSError):  # it ended meanwhile
            if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes():
                workers.append(int(each))
    return workers
