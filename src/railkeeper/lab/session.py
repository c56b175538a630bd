"""A lab as a process of its own: fabric, agents, traffic and faults live here; the keeper asks over a control line.

The keeper may die and come back without the lab noticing, as on a real fabric. A session that a keeper has started
ends with it, however it ends; one started by `railkeeper lab up` stays until it is told to stop.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgpack
import numpy as np
import zmq

from railkeeper.base.errors import RailkeeperError
from railkeeper.fabric.faults import InjectedFault, parse_fault
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import check_spec
from railkeeper.lab import names, state
from railkeeper.lab.build import Lab, build
from railkeeper.lab.capability import check_capability
from railkeeper.lab.counters import CounterReader, pack_counters
from railkeeper.lab.crew import Crew
from railkeeper.lab.faults import Injector
from railkeeper.lab.switchread import SwitchReader
from railkeeper.lab.traffic.config import TrafficConfig
from railkeeper.lab.traffic.node import run_sender
from railkeeper.probe.agent import AgentConfig, run_agent
from railkeeper.probe.plan import ProbeBudget
from railkeeper.telemetry.ports import PortStates

if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
# All nodes of a lab share one machine: what they send together is bounded, whatever their number.
PROBES_PER_S, PACKETS_PER_S, WAKES_PER_S = 9600.0, 6400.0, 400.0
_REVIVE_EVERY_MS = 500
_PREDECESSOR_S = 20.0


@dataclass(frozen=True)
class SessionOptions:
    """What a session needs to know; `folder` holds its control socket and the keeper's."""

    spec: dict[str, Any]
    folder: str
    prefix: str = "rk"
    keeper: str = ""
    tick_s: float = 0.5
    agents: bool = True
    traffic: bool = True
    traffic_pps: float = 350.0
    state_dir: str = "/run/railkeeper"

    @property
    def control(self) -> str:
        """The endpoint of the control line."""
        return f"ipc://{self.folder}/control.sock"


@dataclass
class Session:
    """The running lab of a session."""

    options: SessionOptions
    fabric: Fabric
    lab: Lab
    crew: Crew
    injector: Injector
    switches: SwitchReader
    counted: CounterReader
    stopping: bool = field(default=False)

    # -- commands of the control line ------------------------------------------------------------------
    def inject(self, fault: dict[str, Any]) -> None:
        """Break what the fault says."""
        self.injector.inject(parse_fault(self.fabric, fault, where="fault"))

    def clear(self, fault: str) -> None:
        """Mend what a fault broke."""
        self.injector.clear(fault)

    def clear_all(self) -> None:
        """Mend everything."""
        self.injector.clear_all()

    def active(self) -> list[dict[str, Any]]:
        """Return the faults that are active."""
        return [fault_line(f) for f in self.injector.active()]

    def packets_hit(self, fault: str) -> int:
        """Return how many packets a fault has hit."""
        return self.injector.packets_hit(fault)

    def ports(self) -> dict[str, bytes]:
        """Return the state of all ports as bytes of its columns."""
        return {name: column.tobytes() for name, column in vars(self.switches.read()).items()}

    def counters(self) -> dict[str, bytes]:
        """Return the counters of all ports as bytes of their columns."""
        return pack_counters(self.counted.read())

    def processes(self) -> list[tuple[str, int, int]]:
        """Return (role, node, process number) of each live process."""
        return [(role, node, pid) for (role, node), pid in sorted(self.crew.alive().items())]

    def info(self) -> dict[str, Any]:
        """Return what a keeper that attaches must know."""
        return {
            "spec": self.options.spec,
            "keeper": self.options.keeper,
            "tick_s": self.options.tick_s,
            "traffic": self.options.traffic,
        }

    def stop(self) -> None:
        """End the session."""
        self.stopping = True


_COMMANDS = ("inject", "clear", "clear_all", "active", "packets_hit", "ports", "counters", "processes", "info", "stop")


def fault_line(fault: InjectedFault) -> dict[str, Any]:
    """Return the line of a fault file that means this fault."""
    line = {"id": fault.id, "kind": fault.kind, "target": fault.target_name, "direction": fault.direction}
    numbers = {k: getattr(fault, k) for k in ("rate", "gbps", "ms", "down_s", "up_s", "seconds") if getattr(fault, k)}
    return line | numbers | ({"group": fault.group} if fault.group else {})


def serve(options: SessionOptions, ready: Callable[[], None]) -> None:
    """Build the lab, run its processes, answer commands until told to stop; then take everything down."""
    check_capability()
    fabric = Fabric(check_spec(options.spec))
    names.check_prefix(options.prefix)
    folder = Path(options.folder)
    _wait_for_predecessor(options)
    folder.mkdir(parents=True, exist_ok=True)
    with build(fabric, options.prefix, state_dir=Path(options.state_dir)) as lab, contextlib.ExitStack() as stack:
        lab.at_close(lambda: _tidy(folder))
        crew = Crew(lab, preload=_PRELOAD, log=folder / "crew.log")
        switches = stack.enter_context(SwitchReader(lab))
        session = Session(options, fabric, lab, crew, Injector(lab, crew), switches, CounterReader(lab))
        _start_processes(session)
        with _control_line(options) as control:
            ready()
            _answer(session, control)


def _wait_for_predecessor(options: SessionOptions) -> None:
    """Give a lab of the same prefix that no longer answers the time to go: its keeper was killed just now."""
    deadline = time.monotonic() + _PREDECESSOR_S
    control = Path(options.control.removeprefix("ipc://"))
    while time.monotonic() < deadline and not control.exists():
        if state.owner_of(options.prefix, Path(options.state_dir)) is None:
            return
        time.sleep(0.1)


def _tidy(folder: Path) -> None:
    """Remove the folder, unless there is something to read in it."""
    with contextlib.suppress(OSError):
        for name in ("keeper.sock", "keeper.sock.lock"):
            (folder / name).unlink(missing_ok=True)
        log = folder / "crew.log"
        if not log.stat().st_size:
            log.unlink()
        folder.rmdir()


_PRELOAD = ("railkeeper.probe.agent", "railkeeper.lab.traffic.node")


def _start_processes(session: Session) -> None:
    o, f = session.options, session.fabric
    nodes = range(f.n_nodes)
    jobs: list[tuple[str, int, Callable[..., None], tuple[Any, ...]]] = []
    if o.agents:
        jobs += [("agent", n, run_agent, (agent_config(f, n, o),)) for n in nodes]
    if o.traffic:
        jobs += [("sender", n, run_sender, (traffic_config(f, n, o),)) for n in nodes]
    session.crew.start_many(jobs)


def agent_config(fabric: Fabric, node: int, options: SessionOptions) -> AgentConfig:
    """Return the settings of a node's agent in the lab."""
    budget = ProbeBudget(probes_per_s=min(600.0, PROBES_PER_S / fabric.n_nodes))
    return AgentConfig(
        fabric=fabric, node=node, keeper=options.keeper, tick_s=options.tick_s,
        interfaces=_interfaces(fabric, node), budget=budget,
    )  # fmt: skip


def traffic_config(fabric: Fabric, node: int, options: SessionOptions) -> TrafficConfig:
    """Return the settings of a node's traffic in the lab."""
    return TrafficConfig(
        fabric=fabric, node=node, keeper=options.keeper, tick_s=options.tick_s,
        rate_pps=max(1.0, min(options.traffic_pps, PACKETS_PER_S / fabric.n_nics)),
        interfaces=_interfaces(fabric, node),
        wake_s=min(0.1, max(0.05, fabric.n_nodes / WAKES_PER_S)),
    )  # fmt: skip


def _interfaces(fabric: Fabric, node: int) -> tuple[str, ...]:
    width = fabric.nics_per_node * fabric.planes
    return tuple(names.interface_of_end(fabric, 2 * port) for port in range(node * width, (node + 1) * width))


@contextlib.contextmanager
def _control_line(options: SessionOptions) -> Any:
    context = zmq.Context()
    socket = context.socket(zmq.REP)
    socket.set(zmq.LINGER, 200)
    socket.bind(options.control)
    try:
        yield socket
    finally:
        socket.close()
        context.term()
        Path(options.control.removeprefix("ipc://")).unlink(missing_ok=True)


def _answer(session: Session, control: zmq.Socket[bytes]) -> None:
    revive_at = 0.0
    while not session.stopping:
        if control.poll(_REVIVE_EVERY_MS):
            control.send(msgpack.packb(_do(session, control.recv())))
        if time.monotonic() >= revive_at:  # however often somebody asks
            session.crew.revive()
            revive_at = time.monotonic() + _REVIVE_EVERY_MS / 1000


def _do(session: Session, data: bytes) -> dict[str, Any]:
    try:
        request = msgpack.unpackb(data)
        if request["do"] not in _COMMANDS:
            return {"error": f"unknown command {request['do']!r}", "kind": "InputError"}
        return {"ok": getattr(session, request["do"])(**request["with"])}
    except RailkeeperError as e:
        return {"error": str(e), "kind": type(e).__name__}
    except Exception as e:  # noqa: BLE001  the line must answer, or both sides are stuck
        return {"error": f"{type(e).__name__}: {e}", "kind": "OutsideError"}


# -- the process ------------------------------------------------------------------------------------------
def main() -> None:
    """Run a session whose options come as JSON in the first argument; says `ready` or what is wrong on stdout."""
    options = SessionOptions(**json.loads(sys.argv[1]))
    parent = os.getppid()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        return
    try:
        serve(options, lambda: _say({"ready": True}))
    except RailkeeperError as e:
        _say({"error": str(e), "kind": type(e).__name__})
    except OSError as e:
        _say({"error": str(e), "kind": "OutsideError"})


def _stop(_number: int, _frame: object) -> None:
    # Once is enough: a second signal must not cut short the taking down of what the first one began.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    raise SystemExit(0)


def _say(message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        print(json.dumps(message), flush=True)


def options_json(options: SessionOptions) -> str:
    """Return the form in which `main` takes its options."""
    return json.dumps(asdict(options))


def port_states(columns: dict[str, bytes]) -> PortStates:
    """Return what the command `ports` answered as columns again."""
    return PortStates(
        lower=np.frombuffer(columns["lower"], dtype=np.int8),
        upper=np.frombuffer(columns["upper"], dtype=np.int8),
        lower_downs=np.frombuffer(columns["lower_downs"], dtype=np.int64),
        upper_downs=np.frombuffer(columns["upper_downs"], dtype=np.int64),
        switch_answers=np.frombuffer(columns["switch_answers"], dtype=np.int8),
    )


if __name__ == "__main__":
    main()
