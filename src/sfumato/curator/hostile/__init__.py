"""Hostile sessions: each question is read by a worker of its own, and its reply leaves in a public slot.

`slots` says when a reply leaves, `reading` is what the gate calls to read, `host` starts and ends workers,
and `worker` is what runs in them.
"""
