"""Charts and tables: plain results in, Vega-Lite documents and HTML out.

This room imports no other room, so notebooks, documentation and pages can share it.
"""

from sfumato.viz.account import budget_bar, budget_bars
from sfumato.viz.chart import Chart, check_target
from sfumato.viz.curves import belief_curve, step_curve, tradeoff_curve
from sfumato.viz.experiment import histogram_errors
from sfumato.viz.grids import heatmap
from sfumato.viz.intervals import bars, grouped_bars
from sfumato.viz.learning import learning_curves
from sfumato.viz.tables import definition_table, html_table, paragraphs

__all__ = [
    "Chart",
    "bars",
    "belief_curve",
    "budget_bar",
    "budget_bars",
    "check_target",
    "definition_table",
    "grouped_bars",
    "heatmap",
    "histogram_errors",
    "html_table",
    "learning_curves",
    "paragraphs",
    "step_curve",
    "tradeoff_curve",
]
