"""A chart as a Vega-Lite document, and the files it can be saved as."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sfumato.errors import UsageError, missing_extra
from sfumato.viz.theme import CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike
    from types import ModuleType

# Notebooks render version 5 documents and most do not yet know version 6; the renderer knows both.
VEGA_LITE: Final = "5.21"
SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v5.json"
MIME: Final = "application/vnd.vegalite.v5+json"

SHARPNESS: Final = 2
"""Pixels of a PNG for each pixel of the layout, so that text is crisp on dense screens and in print."""


@dataclass(frozen=True, slots=True, repr=False)
class Chart:
    """A Vega-Lite document. Notebooks show it; `save` writes .json, .html, .svg or .png."""

    spec: dict[str, Any]

    def __repr__(self) -> str:
        return f"<Chart {self.title!r}; save it as .png, .svg, .html or .json>"

    @property
    def title(self) -> str:
        """Title of the chart, without its subtitle."""
        title = self.spec.get("title", "")
        return str(title["text"] if isinstance(title, dict) else title)

    def to_json(self) -> str:
        """Return the Vega-Lite document as JSON."""
        return json.dumps(self.spec, ensure_ascii=False, allow_nan=False)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the chart in the format that the file ending of `path` names, and return the path."""
        target = check_target(path)
        target.write_bytes(_RENDERERS[target.suffix.lower()](self))
        return target

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the document for notebooks that draw it, and a picture for all others and for exports."""
        data = {MIME: self.spec, "text/plain": repr(self)}
        try:
            picture = _png(self)
        except UsageError:  # the plot extra is not installed
            return data, {}
        width, height = (size // SHARPNESS for size in struct.unpack(">II", picture[16:24]))
        shown = {"image/png": {"width": width, "height": height}}
        return data | {"image/png": b64encode(picture).decode()}, shown


def check_target(path: str | PathLike[str]) -> Path:
    """Return the path if a chart can be saved there; else raise, before anything is drawn or paid for."""
    target = Path(path)
    if target.suffix.lower() not in _RENDERERS:
        raise UsageError(
            "SF-U102",
            "Charts cannot be saved in this file format.",
            got=target.suffix or "no ending",
            known=", ".join(_RENDERERS),
            try_='"chart.png"',
        )
    if not target.parent.is_dir():
        raise UsageError("SF-U102", "The folder for the chart does not exist.", folder=str(target.parent))
    return target


def make_chart(body: dict[str, Any], *, title: str, subtitle: str = "") -> Chart:
    """Return a chart in the package's style."""
    heading = {"text": title, "subtitle": subtitle} if subtitle else {"text": title}
    return Chart({"$schema": SCHEMA, "title": heading, **body, "config": CONFIG})


def _renderer() -> ModuleType:
    try:
        import vl_convert
    except ImportError:
        raise missing_extra(
            "plot",
            "Saving this picture needs the plot extra, which is not installed.",
            why="only .json can be written without it",
        ) from None
    return vl_convert


def _json(picture: Chart) -> bytes:
    return picture.to_json().encode()


def _png(picture: Chart) -> bytes:
    image: bytes = _renderer().vegalite_to_png(picture.to_json(), vl_version=VEGA_LITE, scale=SHARPNESS)
    return image


def _svg(picture: Chart) -> bytes:
    image: str = _renderer().vegalite_to_svg(picture.to_json(), vl_version=VEGA_LITE)
    return image.encode()


def _html(picture: Chart) -> bytes:
    library = _renderer().javascript_bundle(vl_version=VEGA_LITE)
    # A label may hold "</script>"; in JSON a "<" only occurs inside a text, where \u003c means the same.
    spec = json.dumps(picture.spec, allow_nan=False).replace("<", "\\u003c")
    return _PAGE.format(title=escape(picture.title), library=library, spec=spec).encode()


_RENDERERS: Final[dict[str, Callable[[Chart], bytes]]] = {
    ".json": _json,
    ".html": _html,
    ".svg": _svg,
    ".png": _png,
}

# The policy forbids every request, so the page cannot send the picture anywhere or fetch anything for it. The
# menu's "open in editor" would send it to another site and is left out.
_PAGE: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data: blob:; \
style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>body {{ margin: 2rem auto; max-width: 60rem; }}</style>
<script>{library}</script>
</head>
<body>
<div id="chart"></div>
<script>
vegaEmbed("#chart", {spec}, {{renderer: "svg", actions: {{export: true, source: false, compiled: false, \
editor: false}}}}).catch(console.error);
</script>
</body>
</html>
"""
