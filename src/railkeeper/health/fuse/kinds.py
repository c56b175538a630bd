"""What a finding of a port says of its link: which direction, what kind of fault, whether it is enough for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railkeeper.health.detect.finding import V_FAILED, VERDICTS
from railkeeper.telemetry.signals import catalogue

if TYPE_CHECKING:
    from railkeeper.fabric.model import Fabric
    from railkeeper.health.detect.finding import Finding

PORT = "port"
COUNTED_ALONE = 0.9  # confidence from which on a finding of a port is told without any path
# Below, the detector itself blames another part, or nothing; of a link that is down while its other end says nothing it
# is never surer than 0.45.
LEAST, LEAST_DOWN = 0.5, 0.4
# Detectors that speak of the link which a port ends, and the kind of fault that each sees. What others find (pauses,
# queues, balance, counters that are missing) is of the traffic or of the telemetry.
OF_LINKS = {
    "bounce-back": "corrupt", "discards": "loss", "error-rates": "corrupt", "fec-codewords": "corrupt",
    "fec-margin": "corrupt", "link-flap": "flap", "optics": "corrupt", "port-down": "down", "port-speed": "slow",
}  # fmt: skip
FORETELL = frozenset({"bounce-back", "fec-margin", "optics"})  # a link that may go, and still passes all
FEC_LOST = "fec_uncorrected_codewords"
WORST_FIRST = ("down", "flap", "slow", "corrupt", "loss")
BOTH_WAYS = frozenset({"down", "flap", "slow"})
# Damage between good links is of a memory, not of the link that brought it.
ELSEWHERE = frozenset({"icrc_errors"})


def kind_of(finding: Finding) -> str:
    """Return the kind of fault that a finding is of; a detector that is not ours has counted damage."""
    return OF_LINKS.get(finding.detector, "corrupt")


def founds(finding: Finding) -> bool:
    """Return whether a finding is enough to tell a fault that no path shows.

    Thin margins foretell, and drops are mostly of congestion: only a port that drops by the percent has failed.
    """
    if finding.confidence < COUNTED_ALONE or finding.detector in FORETELL:
        return False
    if finding.detector == "fec-codewords":
        return finding.signal == FEC_LOST
    return finding.detector != "discards" or finding.verdict == VERDICTS[V_FAILED]


def founds_with_others(finding: Finding) -> bool:
    """Return whether a finding is enough where all links of a part show the same.

    Of one link whose other end says nothing, a host may just be off; of all links of a switch, it is the switch.
    """
    return kind_of(finding) == "down" and finding.confidence >= LEAST_DOWN


def struck(fabric: Fabric, finding: Finding) -> tuple[int, ...]:
    """Return the directed links that a finding of a port is of; none for what is of another part.

    Port 2 * link + end counts what it receives: the lower end (0) receives what goes down, the upper what goes up.
    """
    if finding.kind != PORT or not 0 <= finding.entity < 2 * fabric.n_links:
        return ()
    if finding.confidence < (LEAST_DOWN if kind_of(finding) == "down" else LEAST):
        return ()
    link, end = divmod(finding.entity, 2)
    bare = finding.signal.partition("[")[0]
    host_drops = bare == "rx_discards" and end == 0 and link < fabric.n_ports  # the network has delivered them
    if bare in ELSEWHERE or host_drops:
        return ()
    received, way = 2 * link + 1 - end, _way(bare)
    if kind_of(finding) in BOTH_WAYS or not way:
        return (received, received ^ 1)
    return (received,) if way == "rx" else (received ^ 1,)


def _way(signal: str) -> str:
    known = catalogue().get(f"{PORT}.{signal}")
    if known is not None:
        return known.direction
    return next((way for way in ("rx", "tx") if way in signal.split("_")), "")
