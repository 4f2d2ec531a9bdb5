"""Serves a lab on a port of this machine until it is told to stop: python serve_lab.py FOLDER PORT."""

from __future__ import annotations

import sys

import uvicorn

import sfumato as sf
from ready_replies import reply_when_ready
from sfumato.server.app import create_app
from sfumato.server.settings import ServerSettings

if __name__ == "__main__":
    folder, port = sys.argv[1], int(sys.argv[2])
    reply_when_ready()
    settings = ServerSettings(
        address=f"http://127.0.0.1:{port}", requests_per_second=1000, request_burst=10_000
    )
    uvicorn.run(create_app(sf.open(folder), settings), host="127.0.0.1", port=port, log_level="warning")
