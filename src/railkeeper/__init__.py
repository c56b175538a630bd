"""Railkeeper keeps the backend networks of AI supercomputers healthy."""

__version__ = "0.1.0"
