"""Learning over time: running counts, sums, means and histograms, and choices among experts.

counter = sf.online.Counter(horizon=365, epsilon=1.0, delta=1e-6)
counter.add(17)                 one tick: the number of events so far, with noise
counter.run([17, 4, 9, …])      many ticks at once

experts = sf.online.Experts(n=36, horizon=5651, epsilon=1.0, delta=1e-6)
experts.choose()                an expert for this step
experts.observe(losses)         what each expert lost in it
"""

from sfumato.online.experts.game import Experts
from sfumato.online.streams import Counter, Histogram, Mean, Sum

__all__ = ["Counter", "Experts", "Histogram", "Mean", "Sum"]
