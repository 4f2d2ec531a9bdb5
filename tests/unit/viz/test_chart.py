"""What a chart is: a document, a notebook picture, and files that need nothing from elsewhere."""

import json
import re
import sys
from base64 import b64decode
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from sfumato import viz
from sfumato.errors import UsageError
from sfumato.viz.chart import MIME, Chart

HOSTILE = "</script><script>alert(1)</script><!--"


@pytest.fixture
def chart() -> Chart:
    return viz.bars(["A", "B"], [3, 5], [2, 4], [4, 6], title="Visits of ε", x="ward", y="visits")


def test_a_notebook_gets_the_document_and_a_text(chart: Chart) -> None:
    bundle, shown = chart._repr_mimebundle_(include=None, exclude=None)
    assert bundle[MIME] == chart.spec
    assert "Visits of ε" in bundle["text/plain"]
    assert chart.spec["$schema"].endswith("/v5.json")
    # Exports and viewers without Vega show the picture, at the size of the layout.
    assert b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    assert 50 < shown["image/png"]["width"] < 2000


def test_without_the_plot_extra_a_notebook_gets_the_document(
    chart: Chart, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    bundle, shown = chart._repr_mimebundle_()
    assert sorted(bundle) == [MIME, "text/plain"]
    assert shown == {}


def test_a_chart_is_frozen(chart: Chart) -> None:
    with pytest.raises(FrozenInstanceError):
        chart.spec = {}  # type: ignore[misc]


def test_json_is_the_document(chart: Chart, tmp_path: Path) -> None:
    file = chart.save(tmp_path / "chart.json")
    assert json.loads(file.read_text(encoding="utf-8")) == chart.spec


@pytest.mark.parametrize(
    ("ending", "start"), [(".png", b"\x89PNG\r\n\x1a\n"), (".svg", b"<svg"), (".SVG", b"<svg")]
)
def test_pictures_come_out(chart: Chart, tmp_path: Path, ending: str, start: bytes) -> None:
    content = chart.save(tmp_path / f"chart{ending}").read_bytes()
    assert content.startswith(start)
    assert len(content) > 1000


def test_html_asks_the_network_for_nothing(chart: Chart, tmp_path: Path) -> None:
    page = chart.save(tmp_path / "chart.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert not re.search(r"<script[^>]*\bsrc=|<link\b|@import", page)
    assert "editor: false" in page


def test_a_label_cannot_leave_its_script(tmp_path: Path) -> None:
    chart = viz.bars([HOSTILE], [1], title=HOSTILE)
    page = chart.save(tmp_path / "chart.html").read_text(encoding="utf-8")
    plain = viz.bars(["A"], [1], title="A").save(tmp_path / "plain.html").read_text(encoding="utf-8")
    assert HOSTILE not in page
    assert page.count("</script") == plain.count("</script") == 2
    spec = re.search(r'vegaEmbed\("#chart", (\{.*\}), \{renderer', page)
    assert spec is not None
    assert json.loads(spec[1]) == chart.spec


def test_an_unknown_ending_is_refused(chart: Chart, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        chart.save(tmp_path / "chart.bmp")
    assert error.value.code == "SF-U102"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", [".png", ".svg", ".html"])
def test_without_the_renderer_one_is_told_what_to_install(
    chart: Chart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(UsageError) as error:
        chart.save(tmp_path / f"chart{ending}")
    assert error.value.code == "SF-N113"
    assert "sfumato[plot]" in str(error.value)
    assert chart.save(tmp_path / "chart.json").exists()
