"""One of many processes on one budget: asks its own questions and prints how many were answered."""

import sys

import sfumato as sf
from sfumato.errors import BudgetError

folder, me, attempts = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
session = sf.open(folder).session()
answered = 0
for i in range(attempts):
    try:
        session.sql(f"SELECT COUNT(*) FROM visits WHERE cost >= {me}.{i:02d}").release(epsilon=0.01)
        answered += 1
    except BudgetError:
        pass
print(answered)
