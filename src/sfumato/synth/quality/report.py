"""The report on synthetic data: its cost, how near it is to what was released, what it cannot show."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato import viz
from sfumato.errors import UsageError
from sfumato.errors.numbers import format_decimal, format_share

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from sfumato.oracle.guarantee import Guarantee
    from sfumato.synth.quality.drawn_cells import MarginalDistance

_SHOWN, _PICTURES = 12, 6
"""Marginals and pictures that are shown; files have all of them."""
_DISTANCES = (
    "Distances are total variation between the synthetic rows and the released counts, which have noise "
    "themselves; the last column says how much of it is expected of noise alone."
)


@dataclass(frozen=True, slots=True)
class LearningScore:
    """How well a linear classifier that was trained on synthetic rows predicts one column of others."""

    target: str
    right: float
    """Share of right predictions in synthetic rows that it was not trained on."""
    largest: float
    """Share that is right if the most frequent class is always predicted."""


@dataclass(frozen=True)
class QualityReport:
    """How good synthetic data are. Notebooks show it; `save` writes it with its pictures.

    All of it follows from what was released and from synthetic rows.
    """

    generator: str
    rows: int
    guarantee: Guarantee
    split: tuple[tuple[str, float, str], ...]
    """What the budget paid for, the share of it, and what that bought."""
    distances: tuple[MarginalDistance, ...]
    learning: LearningScore | None
    cannot_show: tuple[str, ...]
    pictures: Mapping[str, viz.Chart] = field(default_factory=dict)

    # ---- as numbers ----

    @property
    def mean_distance(self) -> float | None:
        """The mean total variation to the marginals that were released."""
        if not self.distances:
            return None
        return sum(each.distance for each in self.distances) / len(self.distances)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it but the pictures, ready for JSON."""
        return {
            "generator": self.generator,
            "rows": self.rows,
            "guarantee": self.guarantee.to_dict(),
            "split": [{"for": name, "share": share, "buys": buys} for name, share, buys in self.split],
            "distances": [{**asdict(each), "columns": list(each.columns)} for each in self.distances],
            "mean_distance": self.mean_distance,
            "learning": None if self.learning is None else asdict(self.learning),
            "cannot_show": list(self.cannot_show),
        }

    # ---- as text ----

    def __str__(self) -> str:
        return self.to_markdown(_SHOWN)

    __repr__ = __str__

    def to_markdown(self, most: int | None = None) -> str:
        """Return the report as text, with at most so many marginals."""
        lines = [f"# Quality of {self.rows:,} synthetic rows by {self.generator}", ""]
        for heading, rows, sentences in self._parts(most):
            lines += [f"## {heading}", ""]
            if rows:
                header, *body = rows
                lines += [_line(header), _line(["---"] * len(header)), *map(_line, body), ""]
            lines += [*(f"- {each}" for each in sentences), ""] if sentences else []
        return "\n".join(lines).rstrip() + "\n"

    def _repr_html_(self) -> str:
        parts = [f"<h3>Quality of {self.rows:,} synthetic rows by {self.generator}</h3>"]
        for heading, rows, sentences in self._parts(_SHOWN):
            table = viz.html_table(rows[0], rows[1:], align="left") if rows else ""
            parts.append(f"<h4>{heading}</h4>{table}{viz.paragraphs(sentences)}")
        shown = list(self.pictures.values())[:_PICTURES]
        bundles = (chart._repr_mimebundle_()[0].get("image/png") for chart in shown)
        pictures = "".join(
            f'<img alt="{_escape(chart.title)}" style="max-width:48%" src="data:image/png;base64,{image}">'
            for chart, image in zip(shown, bundles, strict=True)
            if image
        )
        return "".join(parts) + pictures

    def _parts(self, most: int | None) -> list[tuple[str, list[list[str]], list[str]]]:
        """Return heading, table and sentences of each part that there is."""
        parts = [self._describe_privacy(), self._describe_distances(most)]
        if self.learning is not None:
            parts.append(("Learning", [], [_say_learning(self.learning)]))
        parts.append(("What it cannot show", [], list(self.cannot_show)))
        return [part for part in parts if part[1] or part[2]]

    def _describe_privacy(self) -> tuple[str, list[list[str]], list[str]]:
        rows = [[format_share(share), name, buys] for name, share, buys in self.split]
        said = [line.strip() for line in str(self.guarantee).splitlines()]
        return "Privacy", [["share", "paid for", "buys"], *rows] if rows else [], said

    def _describe_distances(self, most: int | None) -> tuple[str, list[list[str]], list[str]]:
        if self.mean_distance is None:
            return "Marginals", [], []
        shown = self.distances[:most]
        rows = [
            [
                " · ".join(each.columns),
                format_decimal(each.distance, 4),
                format_decimal(each.noise, 4),
            ]
            for each in shown
        ]
        left = len(self.distances) - len(shown)
        said = [
            f"Mean over all {len(self.distances)} marginals: {format_decimal(self.mean_distance, 4)}.",
            _DISTANCES,
        ]
        if left:
            said.insert(0, f"{left} more marginals are in to_markdown() and to_dict().")
        return "Marginals", [["marginal", "distance", "by noise alone"], *rows], said

    # ---- as files ----

    def save(self, folder: str | PathLike[str], *, pictures: str = "png") -> Path:
        """Write report.md, report.json and the pictures into a folder, and return the folder.

        `pictures` is their format: png, svg, html or json.
        """
        import json

        target = Path(folder)
        if pictures not in ("png", "svg", "html", "json"):
            raise UsageError("SF-U102", "Charts cannot be saved in this file format.", got=str(pictures))
        target.mkdir(exist_ok=True)
        (target / "report.md").write_text(self.to_markdown(), encoding="utf-8")
        written = json.dumps(self.to_dict(), ensure_ascii=False, indent=1)
        (target / "report.json").write_text(written, encoding="utf-8")
        for at, chart in enumerate(self.pictures.values()):
            chart.save(target / f"picture-{at + 1}.{pictures}")
        return target


def _say_learning(score: LearningScore) -> str:
    return (
        f"A linear classifier of '{score.target}' that was trained on synthetic rows is right on "
        f"{format_share(score.right)} of other synthetic rows; always "
        "naming the most frequent class is right on "
        f"{format_share(score.largest)}. `s.evaluate` measures what it does on real rows."
    )


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _escape(text: str) -> str:
    from html import escape

    return escape(text, quote=True)
