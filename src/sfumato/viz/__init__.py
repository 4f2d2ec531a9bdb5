"""Charts and tables: plain results in, Vega-Lite documents and HTML out.

This room imports no other room, so notebooks, documentation and pages can share it.
"""

from sfumato.viz.account import budget_bar, budget_bars, burn_down
from sfumato.viz.attacks import attack_bars
from sfumato.viz.chart import Chart, check_target
from sfumato.viz.curves import belief_curve, profile_curve, spent_curve, step_curve, tradeoff_curve
from sfumato.viz.experiment import histogram_errors
from sfumato.viz.grids import heatmap
from sfumato.viz.icons import IconPart, icon_array, icon_key
from sfumato.viz.intervals import answer_bars, bars, grouped_bars
from sfumato.viz.learning import learning_curves
from sfumato.viz.models import calibration_curve, roc_curve
from sfumato.viz.regret import regret_curves
from sfumato.viz.samples import sample_grid
from sfumato.viz.tables import NamedLines, definition_table, html_table, paragraphs

__all__ = [
    "Chart",
    "IconPart",
    "NamedLines",
    "answer_bars",
    "attack_bars",
    "bars",
    "belief_curve",
    "budget_bar",
    "budget_bars",
    "burn_down",
    "calibration_curve",
    "check_target",
    "definition_table",
    "grouped_bars",
    "heatmap",
    "histogram_errors",
    "html_table",
    "icon_array",
    "icon_key",
    "learning_curves",
    "paragraphs",
    "profile_curve",
    "regret_curves",
    "roc_curve",
    "sample_grid",
    "spent_curve",
    "step_curve",
    "tradeoff_curve",
]
