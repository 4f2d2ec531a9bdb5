"""Files of the pages: what is vendored is what was written down, and nothing in a template is inline."""

from __future__ import annotations

import re

import pytest

from serving import ServedClinic, serve_clinic
from sfumato.server.pages.rendering import STATIC, TEMPLATES, address_static
from sfumato.server.pages.static_files import list_static_files

SIZES = {
    "vega.min.js": 530_000,
    "vega-lite.min.js": 265_000,
    "htmx.min.js": 40_000,
    "vega-interpreter.js": 10_000,
}


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    with serve_clinic(tmp_path_factory.mktemp("served") / "clinic") as served:
        yield served


def test_vendored_files_are_those_that_were_written_down() -> None:
    from hashlib import sha256

    said = re.findall(
        r"^\| (\S+) \| \S+ \| \S+ \| ([\d,]+) \| `(\w{64})` \|$", (STATIC / "VENDORED.md").read_text(), re.M
    )
    found = {path.name: path.read_bytes() for path in (STATIC / "vendor").iterdir()}
    assert {name: (f"{len(data):,}", sha256(data).hexdigest()) for name, data in found.items()} == {
        name: (size, digest) for name, size, digest in said
    }
    assert all(len(data) <= SIZES[name] for name, data in found.items())


def test_licences_stand_beside_the_files() -> None:
    said = (STATIC / "VENDORED.md").read_text()
    assert said.count("Redistributions of source code must retain") == 3
    assert "Zero-Clause BSD" in said


@pytest.mark.parametrize("template", sorted(path.name for path in TEMPLATES.rglob("*.html")))
def test_templates_hold_nothing_inline(template: str) -> None:
    """A style, a handler or a script in a page would be blocked, and would need an exception to work."""
    text = next(TEMPLATES.rglob(template)).read_text()
    assert not re.search(r"\sstyle\s*=|<style|\son[a-z]+\s*=|javascript:|hx-on|hx-vals\s*=\s*[\"']js:", text)
    assert not re.search(r"<script(?![^>]*\ssrc=)", text)
    # Icon arrays are SVG of sfumato.viz, which escapes its own texts; nothing else goes past the escaping.
    assert text.replace(" ", "").count("|safe") == (2 if template == "pictures.html" else 0)


def test_every_form_that_changes_something_carries_the_token() -> None:
    for path in TEMPLATES.rglob("*.html"):
        for form in re.findall(r"<form[^>]*method=\"post\".*?</form>", path.read_text(), re.S):
            assert "csrf_field()" in form, f"a form of {path.name}"


def test_static_files_are_a_fixed_list(clinic: ServedClinic) -> None:
    for name in list_static_files():
        answer = clinic.send("GET", address_static(name), "public")
        assert answer.status_code == 200
        assert answer.content == (STATIC / name).read_bytes()
        assert "immutable" in answer.headers["cache-control"]
    for name in ("../app.py", "..%2fapp.py", "vendor", "nothing.js", "%2e%2e/context.py"):
        assert clinic.send("GET", f"/static/{name}", "public").status_code == 404
