"""The end of the demo: a link that opens the pages of its lab, and the server behind it."""

from __future__ import annotations

import shutil
import socket
import sys
from contextlib import closing
from pathlib import Path

import sfumato as sf
from sfumato.cli.demo import EPSILON, QUERY
from sfumato.cli.output import print_heading, print_text
from sfumato.errors import UsageError

HOST = "127.0.0.1"
_DAY = 86_400.0


def open_pages(folder: Path, port: int, serves: bool | None) -> None:
    """Print a link that signs in once, and serve until Ctrl-C; or print the command that serves.

    By default the pages are served if standard input and output are terminals.
    """
    print_heading("10. The web pages")
    try:
        import sfumato.server  # noqa: F401  says whether its libraries are there
    except UsageError:
        print_text("The web pages need the server: pip install 'sfumato[server]'")
        return
    wanted = sys.stdin.isatty() and sys.stdout.isatty() if serves is None else serves
    print_text(
        "The link below signs you in as the steward, once, within a day, to see all of this in a browser."
    )
    free = find_port(port)
    keep_answer(folder)
    if wanted:
        print_text("The pages are served until you press Ctrl-C.")
    else:
        print_text(f"Serve the pages with: {_name_program()} serve {folder} --port {free}")
    print_text(f"Open {make_link(folder, free)}")
    if wanted:
        from sfumato.server.serving import ServeOptions, serve_lab

        serve_lab(ServeOptions(str(folder), HOST, free))


def keep_answer(folder: Path) -> None:
    """Let the pages show what Ada asked in the demo: the same query again, which is free."""
    from sfumato.server.keeping import ReleaseStore
    from sfumato.server.wire import write_release

    session = sf.open(folder).session("ada")
    with closing(ReleaseStore(folder / "releases.sqlite")) as kept:
        answer = write_release(session.question(QUERY).release(epsilon=EPSILON))
        kept.keep_release(answer["entry"], "ada", {"sql": QUERY}, {"epsilon": EPSILON}, answer)


def make_link(folder: Path, port: int) -> str:
    """Return a link that signs the steward of a lab in, once."""
    from sfumato.server.pages.entering import PURPOSE
    from sfumato.server.people import PeopleStore
    from sfumato.server.serving import FIRST_STEWARD

    with closing(PeopleStore(folder / "people.sqlite")) as people:
        people.add_person(FIRST_STEWARD, "steward")
        people.add_person("ada", "analyst")
        return f"http://{HOST}:{port}/enter/{people.make_token(FIRST_STEWARD, seconds=_DAY, purpose=PURPOSE)}"


def _name_program() -> str:
    """Return how this command is called here: by its path where the shell would not find it."""
    own = Path(sys.argv[0])
    return str(own) if own.name == "sfumato" and shutil.which("sfumato") is None else "sfumato"


def find_port(wanted: int) -> int:
    """Return this port if it is free, else another one that is."""
    for port in (wanted, 0):
        with socket.socket() as place:
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                place.bind((HOST, port))
            except OSError:
                continue
            return int(place.getsockname()[1])
    return wanted
