"""Attacks as pages one can play, on generated people: differencing, asking again, linkage.

Every round asks a desk that answers exactly and a real lab of its own, in a folder that is erased afterwards.
Nothing here touches the lab that is served.
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse

from sfumato.errors import PolicyError
from sfumato.server.access import Role, Visitor, allow
from sfumato.server.pages.rendering import render
from sfumato.server.quiet import hush_steward_warnings

if TYPE_CHECKING:
    from collections.abc import Iterator

router = APIRouter()

EPSILONS: Final = ("0.1", "0.5", "1", "2", "4")
TIMES: Final = ("1", "10", "100", "1000", "20000")
PATIENCE: Final = 8.0
"""Seconds to wait for the round of somebody else."""
PLACES: Final = 4
"""Players of one server process, of whom one plays and the others wait."""
_PLACES = BoundedSemaphore(PLACES)

Everyone = Annotated[Visitor, Depends(allow(Role.PUBLIC))]
Number = Annotated[int, Query(ge=0, le=10**6)]
Total = Annotated[int, Query(ge=-(10**12), le=10**12)]
Word = Annotated[str, Query(max_length=20)]


@router.get("/learn", response_class=HTMLResponse)
def show_attacks(request: Request, visitor: Everyone) -> HTMLResponse:
    """Return the list of attacks, and which of them can be played."""
    from sfumato.attacks import list_attacks

    return render(request, visitor, "learn.html", attacks=list_attacks())


@router.get("/learn/differencing", response_class=HTMLResponse)
def play_subtraction(
    request: Request,
    visitor: Everyone,
    epsilon: Word = "1",
    seat: Number = 0,
    department: Number = 1,
    hits: Number = 0,
    rounds: Number = 0,
    ask: Word = "",
    guess: Annotated[int | None, Query(ge=0, le=9)] = None,
    everyone: Total = 0,
    others: Total = 0,
) -> HTMLResponse:
    """Return the page: before a round, with the lab's two totals, or with the truth beside the guess."""
    from sfumato.attacks.differencing import STAFF
    from sfumato.attacks.play import play_differencing, reveal_differencing
    from sfumato.attacks.play.names import NAMES

    chosen, played = read_choice(epsilon, EPSILONS, "1"), None
    if guess is not None:
        played = reveal_differencing(
            epsilon=float(chosen), seat=seat, seed=department, private=(everyone, others)
        )
        hits, rounds = min(rounds, hits) + (guess == played.true_tenth), rounds + 1
    elif ask:
        with one_game():
            played = play_differencing(epsilon=float(chosen), seat=seat, seed=department)
    facts: dict[str, Any] = {"epsilon": chosen, "epsilons": EPSILONS, "seat": seat % STAFF, "names": NAMES}
    score: dict[str, Any] = {"hits": hits, "rounds": rounds, "guess": guess, "department": department}
    return render(request, visitor, "learn_differencing.html", round=played, **facts, **score)


@router.get("/learn/repetition", response_class=HTMLResponse)
def play_asking_again(
    request: Request,
    visitor: Everyone,
    epsilon: Word = "1",
    times: Word = "1000",
    group: Number = 1,
    ask: Word = "",
) -> HTMLResponse:
    """Return the page, with a round if one was asked for."""
    from sfumato.attacks.play import play_repetition

    chosen, often, played = read_choice(epsilon, EPSILONS, "1"), read_choice(times, TIMES, "1000"), None
    if ask:
        with one_game():
            played = play_repetition(epsilon=float(chosen), times=int(often), seed=group)
    facts: dict[str, Any] = {
        "epsilon": chosen,
        "epsilons": EPSILONS,
        "times": often,
        "choices": TIMES,
        "group": group,
    }
    return render(request, visitor, "learn_repetition.html", round=played, **facts)


@router.get("/learn/linkage", response_class=HTMLResponse)
def play_lookup(
    request: Request,
    visitor: Everyone,
    epsilon: Word = "1",
    person: Number = 0,
    town: Number = 1,
    known: Annotated[list[str] | None, Query(max_length=4)] = None,
    ask: Word = "",
) -> HTMLResponse:
    """Return the page, with a round if one was asked for."""
    from sfumato.attacks.people import ALONE
    from sfumato.attacks.play import KNOWN, play_linkage
    from sfumato.attacks.play.names import NAMES

    chosen, played = read_choice(epsilon, EPSILONS, "1"), None
    ticked = [name for name in KNOWN if name in (known or ([] if ask else list(KNOWN)))]
    if ask:
        with one_game():
            played = play_linkage(known=ticked, epsilon=float(chosen), person=person, seed=town)
    facts: dict[str, Any] = {
        "epsilon": chosen,
        "epsilons": EPSILONS,
        "person": person % len(NAMES),
        "names": NAMES,
    }
    about: dict[str, Any] = {"known": KNOWN, "ticked": ticked, "town": town, "published": ALONE}
    return render(request, visitor, "learn_linkage.html", round=played, **facts, **about)


@router.get("/learn/{attack}/score", response_class=HTMLResponse)
def show_score(request: Request, visitor: Everyone, attack: str, epsilon: Word = "1") -> HTMLResponse:
    """Return how often the attack of `sfumato.attacks` is right over many trials, beside its ceiling."""
    from sfumato.attacks import asking_again, differencing, linkage

    chosen = read_choice(epsilon, EPSILONS, "1")
    runs = {
        "differencing": lambda: differencing(epsilon=float(chosen), trials=100),
        "repetition": lambda: asking_again(epsilon=float(chosen), trials=50, times=(1, 100, 2000)),
        "linkage": lambda: linkage(epsilon=float(chosen), people=2000),
    }
    if attack not in runs:
        raise PolicyError("SF-U101", "There is no such attack to play.", known=", ".join(runs))
    with one_game():
        report = runs[attack]()
    return render(request, visitor, "learn_score.html", report=report, attack=attack, epsilon=chosen)


def read_choice(typed: str, choices: tuple[str, ...], usual: str) -> str:
    """Return what was typed if it is one of the choices, else the usual one."""
    return typed if typed in choices else usual


@contextmanager
def one_game() -> Iterator[None]:
    """Let one round run at a time, so that players take little from those who ask real questions.

    A few may wait. All others are refused at once, or they would take every thread of the server.
    """
    if not _PLACES.acquire(blocking=False):
        raise PolicyError(
            "SF-W108", "Others are playing at the moment.", try_="the same again in a few seconds"
        )
    try:
        with hush_steward_warnings(PATIENCE):
            yield
    finally:
        _PLACES.release()
