"""Data that ships with the package: the recorded demonstration."""
