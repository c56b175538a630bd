"""`railkeeper agent`: the mapper's agent of one node of a fabric of your own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from railkeeper.app.settings import check_endpoint
from railkeeper.base.errors import InputError
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.names import Kind, parse_name
from railkeeper.fabric.spec import read_spec
from railkeeper.probe.agent import AgentConfig, run_agent
from railkeeper.probe.interfaces import missing, parse_interfaces


def agent(
    *,
    fabric: Annotated[Path, typer.Option(help="Fabric spec, the same that the keeper has.")],
    node: Annotated[str, typer.Option(help="Name of this node, e.g. n12.")],
    keeper: Annotated[str, typer.Option(help="The keeper's endpoint, e.g. tcp://10.0.0.1:7400.")],
    interface: Annotated[list[str], typer.Option(help="Port and its interface, e.g. nic0/p0=eth2; one for each port.")],
    tick_s: Annotated[float, typer.Option(help="Length of a tick; the same as the keeper's.", min=0.1, max=60)] = 0.5,
    port: Annotated[int, typer.Option(help="UDP port of probes.", min=1, max=65535)] = 9100,
) -> None:
    """Probe the fabric from this node and report to the keeper until SIGTERM."""
    f = Fabric(read_spec(fabric))
    part = parse_name(f, node, where="--node")
    if part.kind is not Kind.NODE:
        raise InputError("--node", f"{node!r} is no node", "e.g. n12")
    interfaces = parse_interfaces(f, part.id, interface)
    try:
        check_endpoint(keeper)
    except ValueError as e:
        raise InputError("--keeper", f"is {keeper!r}", str(e)) from e
    config = AgentConfig(fabric=f, node=part.id, keeper=keeper, interfaces=interfaces, tick_s=tick_s, port=port)

    def say(text: str) -> None:
        print(f"railkeeper: agent of {node}: {text}", file=sys.stderr, flush=True)

    say(f"{', '.join(interfaces)} to {keeper}")
    for name in missing(interfaces):
        say(f"there is no interface {name!r} here: until it is there, nothing is known of its port")
    run_agent(config, say=say)
