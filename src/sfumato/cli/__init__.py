"""The command line: a door that translates and never decides."""
