"""Feed: what the sources have said, as a frame at the end of each frame's time, and the jobs that run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railkeeper.adapters.runner import Runner
from railkeeper.base.errors import InputError
from railkeeper.health.slo.scopes import Job
from railkeeper.telemetry.assemble import Assembler
from railkeeper.telemetry.frame_wire import encode_frame
from railkeeper.telemetry.named_places import NamedPlaces
from railkeeper.telemetry.places import FabricPlaces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from railkeeper.app.settings import Settings
    from railkeeper.app.settings_sources import AnySource
    from railkeeper.app.sources import JobLister, Sources
    from railkeeper.fabric.model import Fabric
    from railkeeper.telemetry.frame import Frame
    from railkeeper.telemetry.place_rules import PlacesSettings
    from railkeeper.telemetry.reading import SourceStatus

JOBS_LAST_S = 600.0


class SourceFeed:
    """Asks all sources in a thread of its own; `take` is called by the keeper, once a tick.

    Without a fabric, entities are those that the sources name. `complain` is told once of each target that fails.
    """

    def __init__(
        self,
        fabric: Fabric | None,
        sources: Sources,
        places: PlacesSettings,
        *,
        frame_s: float,
        complain: Callable[[str], None] = lambda _text: None,
    ) -> None:
        known = FabricPlaces(fabric, places) if fabric is not None else None
        self.assembler = Assembler(known or NamedPlaces(), max_age_s=max(3 * frame_s, 30.0))
        self._runner = Runner(sources.targets, sources.streams)
        self._jobs = JobsOf(known.node_id if known else lambda _name: None, sources.listers)
        self._frame_s, self._complain = frame_s, complain
        self._number: int | None = None
        self._told: set[tuple[str, str]] = set()

    def start(self) -> None:
        """Begin to ask."""
        self._runner.start()

    def close(self) -> None:
        """End all polls and streams."""
        for name in self._runner.stop():
            self._complain(f"{name} does not end")

    def statuses(self) -> Sequence[SourceStatus]:
        """Return how every target is."""
        return self._runner.statuses()

    def take(self, t_s: float) -> tuple[tuple[bytes, ...], tuple[Job, ...] | None]:
        """Return the frame that ends with a tick (unix s) and the jobs; neither where a frame's time goes on."""
        self.gather()
        number = int(t_s // self._frame_s)
        if self._number is None:
            self._number = number
        if number == self._number:
            return (), None
        self._number = number
        self._tell()
        return encode_frame(self.frame(t_s)), self._jobs.running(t_s)

    def gather(self) -> None:
        """Take in what has come: each tick, so that little lies in memory, and the work is spread."""
        self.assembler.add(self._runner.drain())

    def frame(self, t_s: float) -> Frame:
        """Return the frame that ends now."""
        return self.assembler.frame(t_s)

    def _tell(self) -> None:
        for s in self._runner.statuses():
            key = (s.source, s.target)
            if s.state == "failing" and key not in self._told:
                self._told.add(key)
                self._complain(f"source {s.source}: {s.target}: {s.error}; trying again")
            elif s.state == "ok" and key in self._told:
                self._told.discard(key)
                self._complain(f"source {s.source}: {s.target}: answers again")


def open_feed(
    settings: Settings,
    sources: Iterable[AnySource],
    fabric: Fabric | None,
    *,
    frame_s: float,
    where: str,
    complain: Callable[[str], None],
) -> SourceFeed:
    """Return the feed of these sources; raises InputError, that begins with `where`, for settings that can't be."""
    # Clients of all those protocols take long to import: only who has sources waits for them.
    from railkeeper.app.sources import make_sources  # noqa: PLC0415

    try:
        return SourceFeed(fabric, make_sources(sources), settings.places, frame_s=frame_s, complain=complain)
    except InputError as e:
        raise InputError(f"{where}: {e.where}", e.problem, e.right) from e


class JobsOf:
    """The running jobs as the workload managers list them, by nodes of the fabric."""

    def __init__(self, node_id: Callable[[str], int | None], listers: Sequence[JobLister]) -> None:
        self._node_id, self._listers = node_id, listers

    def running(self, now_s: float) -> tuple[Job, ...] | None:
        """Return the jobs that run on nodes of the fabric; None where no manager has said anything yet.

        What a manager said more than JOBS_LAST_S ago counts no more: its nodes may have other jobs by now.
        """
        said = [lister.latest for lister in self._listers if lister.latest is not None]
        if not said:
            return None
        lists = [workload for workload in said if workload.t_ns >= (now_s - JOBS_LAST_S) * 1e9]
        jobs = [job for workload in lists for job in workload.jobs.items if job.state == "running"]
        found = [Job(job.id, tuple(sorted(self._ids(job.nodes)))) for job in jobs]
        return tuple(sorted(job for job in found if job.nodes))

    def _ids(self, names: Sequence[str]) -> set[int]:
        return {node for name in names if (node := self._node_id(name)) is not None}
