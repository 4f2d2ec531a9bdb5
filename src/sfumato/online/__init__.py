"""Learning over time: counts, sums, means and histograms that are released after every tick.

counter = sf.online.Counter(horizon=365, epsilon=1.0, delta=1e-6)
counter.add(17)                 one tick: the number of events so far, with noise
counter.run([17, 4, 9, …])      many ticks at once
"""

from sfumato.online.streams import Counter, Histogram, Mean, Sum

__all__ = ["Counter", "Histogram", "Mean", "Sum"]
