"""Streams behind the curator: one charge for all ticks, each tick read and released once (docs/streams.md).

`plan.py` prices, `state.py` keeps what is secret, `door.py` charges, reads and releases. All three rest on
docs/proofs/continual.md and docs/proofs/streams.md.
"""

__all__: list[str] = []
