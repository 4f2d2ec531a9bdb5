"""A free port for a server that cannot be told to choose one itself."""

from __future__ import annotations

import socket
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def reserve_port() -> Iterator[int]:
    """Yield a free port of this machine, and keep others from getting it until the block ends.

    Our socket stays bound and never listens. Linux then gives the port to no process that asks for any free
    port, while a server that names the port and sets SO_REUSEADDR, as all do, can still listen there.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        if sys.platform != "linux":  # other systems refuse the server while the port is held
            held.close()
        yield port
