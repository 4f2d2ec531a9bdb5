"""The door over HTTP: a JSON API and pages over one lab, for people who can only send requests.

Handlers translate requests into calls of a session and its results into JSON or pages; they decide nothing
about privacy. Every session here is a hostile one: worker processes and reply slots, always.
"""

from importlib.util import find_spec

from sfumato.errors import missing_extra

if not all(map(find_spec, ("argon2", "fastapi", "jinja2", "uvicorn"))):
    raise missing_extra("server", "The server is not installed.")
