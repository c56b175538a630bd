"""One door for evidence of every kind: probes, transports' path tables, flows, counters, port states."""
