"""Private training of torch modules: noisy sums of gradients that are bounded unit by unit.

trainer = sf.deep.Trainer(module, torch.nn.CrossEntropyLoss(), epsilon=3, delta=1e-5, epochs=10)
trainer.fit((X, y))

torch is needed here and nowhere else.
"""

from importlib.util import find_spec

from sfumato.errors import missing_extra

if find_spec("torch") is None:
    raise missing_extra("torch", "Deep learning needs torch, which is not installed.")

from sfumato.deep.canaries import score_gradient_canaries, score_loss_canaries
from sfumato.deep.ready.estimators import Classifier, Regressor, load
from sfumato.deep.scattering import scatter
from sfumato.deep.trainer import Trainer

__all__ = [
    "Classifier",
    "Regressor",
    "Trainer",
    "load",
    "scatter",
    "score_gradient_canaries",
    "score_loss_canaries",
]
