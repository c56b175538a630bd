"""Adapters: what Railkeeper reads from other systems, each behind `Target` or `Stream` of telemetry/reading.py."""
