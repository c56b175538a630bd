"""Whether this machine can hold a lab: the kernel is asked by doing each thing once."""

from __future__ import annotations

import shutil
import threading
from functools import cache
from pathlib import Path

from railkeeper.base.errors import CapabilityError, OutsideError, RailkeeperError
from railkeeper.fabric import address
from railkeeper.lab import names, netns, rtnl
from railkeeper.lab.readback import read_routes

_NEEDED = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}
_PROGRAMS = {"nft": "nftables", "tc": "iproute2", "ip": "iproute2"}
SID_KINDS = ("dummy", "ifb")


def check_capability() -> None:
    """Raise CapabilityError that says what is missing and what to do, unless a lab can run here."""
    _check_rights()
    missing = sorted({package for program, package in _PROGRAMS.items() if shutil.which(program) is None})
    if missing:
        raise CapabilityError(
            f"the lab needs the programs of {', '.join(missing)}: apt-get install {' '.join(missing)}"
        )
    sid_kind()


def _check_rights() -> None:
    status = Path("/proc/self/status")
    if not status.exists():
        raise CapabilityError("the lab needs Linux network namespaces; replay a recording instead")
    line = next(x for x in status.read_bytes().splitlines() if x.startswith(b"CapEff"))
    have = int(line.split()[1], 16)
    missing = [name for name, bit in _NEEDED.items() if not have >> bit & 1]
    if missing:
        raise CapabilityError(f"the lab needs root (missing: {', '.join(missing)}): run it as root, e.g. with sudo")


@cache
def sid_kind() -> str:
    """Return the kind of link that can hold a switch's uSIDs on this kernel: one that never goes down.

    A route of a uSID on `lo` is refused by forwarding, so a software link is needed. Raises CapabilityError.
    """
    problems: list[str] = []
    thread = threading.Thread(target=lambda: problems.extend(_try_all()), name="lab-capability")
    thread.start()
    thread.join()
    if problems and problems[-1].startswith("ok "):
        return problems[-1][3:]
    raise CapabilityError(
        "this kernel can't hold a lab: it needs network namespaces, veth, a dummy or ifb link and SRv6 "
        f"(CONFIG_IPV6_SEG6_LWTUNNEL) with the NEXT-C-SID flavour, Linux 6.1 or newer ({'; '.join(problems)})"
    )


def _try_all() -> list[str]:
    # Runs in a thread of its own, since it does not come back from its namespace.
    problems: list[str] = []
    for kind in SID_KINDS:
        try:
            netns.unshare()
            _try(kind)
        except RailkeeperError as e:
            problems.append(f"{kind}: {e}")
        else:
            return [*problems, f"ok {kind}"]
    return problems


def _try(kind: str) -> None:
    sid = address.encode(0, [address.T0_BASE])
    route = rtnl.new_route(sid, 48, index=names.SID_INDEX, encap=rtnl.END_NEXT_CSID)
    netns.write_sysctl("net/ipv6/conf/all/forwarding", "1")
    with rtnl.RouteSocket() as s:
        s.apply([rtnl.new_link(kind, names.SID_LINK, names.SID_INDEX)], f"a {kind} link")
        s.apply([route], "SRv6 End with NEXT-C-SID")
        if not any(r.next_csid for r in read_routes(s)):
            raise OutsideError("the kernel took SRv6 End but not its NEXT-C-SID flavour")
