"""The process that forks workers of hostile sessions, as a script for `warm`: hostile_worker.py SOCKET."""

from sfumato.curator.hostile.worker import main

main()
