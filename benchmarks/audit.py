"""Measure the auditor: what it catches, how much of a true claim it shows, and how often it is wrong.

    python benchmarks/audit.py [gallery] [power] [catalogue] [final] [peers]

Figures go to docs/measured/audit.json, from which docs/build.py writes the tables of docs/audit.md. Peers
run in environments of their own, which SFUMATO_PEERS, SFUMATO_SYNTHCITY and SFUMATO_MBI name by their Python;
their requirements are in benchmarks/peers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from mistakes import MISTAKES
from sfumato import audit
from sfumato.local import RandomizedResponse
from sfumato.noise import GaussianNoise, Histograms, LaplaceNoise, ModeMechanism

STORED = Path(__file__).parents[1] / "docs" / "measured" / "audit.json"
HUNDRED_THOUSAND, MILLION = 10**5, 10**6
EFFORT = 10
"""Times the fewest samples, as `sfumato audit` has it."""
CELLS, CHUNK = 200, 50_000
FINE = 1000
"""Steps of the grid to one unit: noise that is nearly continuous."""
PEERS = (
    ("SFUMATO_PEERS", "audit_peers.py", ("diffprivlib", "opendp")),
    ("SFUMATO_SYNTHCITY", "audit_synthcity.py", ("synthcity",)),
    ("SFUMATO_MBI", "audit_mbi.py", ("mbi",)),
)
"""Variable that names a Python, the script that it runs, and the libraries that are audited there."""

Row = list[Any]


def measure_gallery() -> list[Row]:
    """Return for each mistake its source, claim, lower bound and what showed it."""
    rows = []
    for each in MISTAKES:
        found = each.audit()
        event = found.event.rsplit(", likelier", 1)[0]
        shown = event if found.broken else f"replay: {found.replayed.finding}" if found.replayed else ""
        claim = f"{each.epsilon:g}" + (f", δ = {each.delta:g}" if each.delta else "")
        rows.append([each.name, each.source, each.wrong, claim, found.lower_bound, shown, found.violates])
        print(rows[-1], flush=True)
    return rows


def _laplace(missing: Fraction = Fraction(0), grid: int = 1) -> Any:
    return audit.pair(LaplaceNoise(grid * (1 - missing)).release, 0, grid)


def _caught(target: Any, runs: int, samples: int, **options: Any) -> str:
    found = [audit.run(target, 1, samples=samples, **options).violates for _ in range(runs)]
    return f"{sum(found)} of {runs}"


def _bounds(target: Any, alpha: float) -> str:
    found = sorted(audit.run(target, 1, samples=HUNDRED_THOUSAND, alpha=alpha).lower_bound for _ in range(20))
    return f"{found[10]:.3f} (from {found[0]:.3f} to {found[-1]:.3f})"


def measure_power() -> list[Row]:
    """Return what is measured, and the figure."""
    rows: list[Row] = []
    for alpha in (1e-4, 0.05):
        for name, grid in (("steps of 1", 1), ("nearly continuous", FINE)):
            text = f"Laplace ε = 1, {name}: lower bound at 10⁵ samples, α = {alpha:g}, median of 20"
            rows.append([text, _bounds(_laplace(grid=grid), alpha)])
    begun = time.process_time()
    audit.run(_laplace(), 1, samples=HUNDRED_THOUSAND)
    rows.append(["seconds of one such audit", f"{time.process_time() - begun:.2f}"])
    half, tenth = Fraction(1, 2), Fraction(1, 10)
    for name, grid in (("steps of 1", 1), ("nearly continuous", FINE)):
        rows.append(
            [f"half of the noise caught, {name}, 10⁴ samples", _caught(_laplace(half, grid), 50, 10**4)]
        )
        rows.append(
            [f"10 % too little caught, {name}, 10⁵ samples", _caught(_laplace(tenth, grid), 50, 10**5)]
        )
    for name, grid, text, samples in (
        ("steps of 1", 1, "2·10⁴", 20_000),
        ("nearly continuous", FINE, "2·10⁴", 20_000),
        ("nearly continuous", FINE, "10⁵", 10**5),
    ):
        alarms = _caught(_laplace(grid=grid), 200, samples)
        rows.append([f"false alarms, {name}, α = 10⁻⁴, {text} samples", alarms])
    for row in rows:
        print(row, flush=True)
    return rows + _measure_tight()


def _measure_tight() -> list[Row]:
    rows: list[Row] = []
    for epsilon in (Fraction(1, 2), 1, 2, 4, 8):
        found = audit.run(
            audit.pair(LaplaceNoise(1 / Fraction(epsilon)).release, 0, 1), epsilon, samples=MILLION
        )
        name = f"Laplace ε = {float(epsilon):g}: share of the claim shown at 10⁶ samples"
        rows.append([name, f"{found.lower_bound / float(epsilon):.3f}"])
    for epsilon in (1, 8):
        answers = tuple(_answers(RandomizedResponse(epsilon), each) for each in (0, 1))
        found = audit.run(answers, epsilon, samples=MILLION)
        name = f"randomized response ε = {epsilon}: share of the claim shown at 10⁶ samples"
        rows.append([name, f"{found.lower_bound / epsilon:.3f}"])
    rows.append(_measure_mode())
    for mu in (Fraction(1, 2), 1, 2):
        noise = GaussianNoise(FINE / Fraction(mu))
        found = audit.run(audit.pair(noise.release, 0, FINE), noise.event(FINE), samples=MILLION)
        rows.append([f"Gaussian μ = {float(mu):g}: share of μ shown at 10⁶ samples", f"{found.used:.3f}"])
    for row in rows:
        print(row, flush=True)
    return rows


def _measure_mode() -> Row:
    # One count grows by 1: the more cells there are, the nearer is the loss to ε, and the rarer.
    sides = _modes(1), _modes(0)
    shown = sorted(audit.run(sides, 2, samples=MILLION).lower_bound / 2 for _ in range(3))
    name = (
        f"exponential mechanism ε = 2, mode of {CELLS} cells: share of the claim at 10⁶ samples, median of 3"
    )
    return [name, f"{shown[1]:.3f} (from {shown[0]:.3f} to {shown[2]:.3f})"]


def _answers(survey: Any, value: int) -> Any:
    return lambda n: survey.privatize(np.full(n, value))


def _modes(first: int) -> Any:
    """Return a sampler of the mode of a histogram whose first cell has so many rows and all others none."""
    mechanism = ModeMechanism(Fraction(2))

    def draw(n: int) -> Any:
        groups = np.arange(n * first)
        counts = Histograms.from_triplets(groups, 0 * groups, 0 * groups + 1, groups=n, cells=CELLS)
        return mechanism.release_groups(counts).T

    return lambda n: np.concatenate([draw(CHUNK) for _ in range(n // CHUNK)])


def measure_catalogue() -> list[Row]:
    """Return the verdict on everything that is shipped, and how long all of it takes."""
    rows: list[Row] = []
    begun = time.process_time(), time.perf_counter()
    for each in audit.list_entries():
        before = time.process_time()
        found = each.audit(EFFORT)
        rows.append([each.name, each.kind, found.claim, found.sentence, found.violates])
        print(rows[-1], f"{time.process_time() - before:.2f} s", flush=True)
    spent, passed = time.process_time() - begun[0], time.perf_counter() - begun[1]
    print(f"{len(rows)} entries: {spent:.0f} CPU s, {passed:.0f} s")
    return rows


def measure_final() -> list[Row]:
    """Return what canaries show where only the trained module is seen."""
    from parts.final_module import measure_runs

    return measure_runs()


def measure_peers() -> list[Row]:
    """Return what was found in other libraries, in the environments that are named; else what is stored."""
    rows: list[Row] = []
    for variable, script, libraries in PEERS:
        if variable not in os.environ:
            rows += [each for each in _stored().get("peers", []) if each[0].split()[0] in libraries]
            continue
        path = Path(__file__).parent / "peers" / script
        done = subprocess.run([os.environ[variable], str(path)], capture_output=True, text=True, check=True)
        rows += json.loads(done.stdout.splitlines()[-1])
    for row in rows:
        print(row, flush=True)
    return rows


def _stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    return found


PARTS = {
    "gallery": measure_gallery,
    "power": measure_power,
    "catalogue": measure_catalogue,
    "final": measure_final,
    "peers": measure_peers,
}


def main() -> int:
    for name in sys.argv[1:] or PARTS:
        found = PARTS[name]()
        stored = {**_stored(), name: found}
        STORED.write_text(json.dumps(stored, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    stored = _stored()
    missed = [row[0] for row in stored.get("gallery", []) if not row[-1]]
    broken = [row[0] for row in stored.get("catalogue", []) if row[-1]]
    print("missed:", missed, "broken:", broken)
    return 1 if missed or broken else 0


if __name__ == "__main__":
    sys.exit(main())
