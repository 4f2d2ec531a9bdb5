"""Serve a lab on a free port until told to stop, and print the address: python serve_lab.py FOLDER."""

from __future__ import annotations

import socket
import sys

import uvicorn

import sfumato as sf
from ready_replies import let_jobs_reply_when_ready, reply_when_ready
from sfumato.server.app import create_app
from sfumato.server.settings import ServerSettings

if __name__ == "__main__":
    folder = sys.argv[1]
    reply_when_ready()
    let_jobs_reply_when_ready()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        settings = ServerSettings(address=address, requests_per_second=1e9, request_burst=10**9)
        server = uvicorn.Server(uvicorn.Config(create_app(sf.open(folder), settings), log_level="warning"))
        # Requests that come before the application is ready wait until it is: the socket listens already.
        print(address, flush=True)
        server.run(sockets=[listening])
