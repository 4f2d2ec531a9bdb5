"""The door over HTTP: a JSON API and pages over one lab, for people who can only send requests.

Handlers translate requests into calls of a session and its results into JSON or pages; they decide nothing
about privacy. Every session here is a hostile one: worker processes and reply slots, always.
"""
