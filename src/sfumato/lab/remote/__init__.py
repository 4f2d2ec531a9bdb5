"""A lab on another machine: `sf.connect(url, token)` gives the surface of a session over HTTP.

Questions, frames, aggregates and parameters travel as JSON of a closed list of forms (expressions.py,
frames.py, parameters.py), which the server reads with the same modules. Nothing here decides about privacy.
"""
