"""`railkeeper look`: points at sources, and shows service levels by plane and the worst parts, with their evidence."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from railkeeper.app.events import SCHEMA
from railkeeper.app.feed import open_feed
from railkeeper.app.look import Look, Part, Report
from railkeeper.app.settings import Settings, read_settings, spec_of
from railkeeper.app.settings_sources import HostSource, PrometheusSource, SonicSource, check_sources
from railkeeper.app.warm import warm_up
from railkeeper.base.errors import InputError
from railkeeper.cli.screen import screen
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import read_spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from railkeeper.app.feed import SourceFeed
    from railkeeper.app.settings_sources import AnySource
    from railkeeper.telemetry.unbound import Leftovers

SHOWN_EVIDENCE = 4
SHOWN_LEFTOVERS = 2
PLURALS = {"port": "ports", "nic": "NICs", "node": "nodes", "switch": "switches"}


def look(
    *,
    prometheus: Annotated[list[str] | None, typer.Option(help="URL of metrics to scrape; may be repeated.")] = None,
    sonic: Annotated[
        list[str] | None, typer.Option(help="SWITCH=redis://HOST[:PORT] or SWITCH=unix:///PATH; may be repeated.")
    ] = None,
    host: Annotated[bool, typer.Option("--host", help="Read this host.")] = False,
    config: Annotated[Path | None, typer.Option("--config", help="A settings file with sources and places.")] = None,
    fabric: Annotated[Path | None, typer.Option("--fabric", help="Fabric spec; without one all is one plane.")] = None,
    every_s: Annotated[float, typer.Option("--every", help="Seconds of a frame.", min=1, max=600)] = 10.0,
    for_s: Annotated[float | None, typer.Option("--for", help="Stop after this many seconds.", min=0)] = None,
    worst: Annotated[int, typer.Option(help="How many parts are shown.", min=1, max=1000)] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="JSON Lines, one a frame.")] = False,
) -> None:
    """Look at whatever there is: sources in, service levels and the worst parts out. Nothing is kept, nothing acted."""
    settings = read_settings(config)
    sources = [*settings.source, *_asked(prometheus or [], sonic or [], host, every_s)]
    if not sources:
        raise InputError(
            "sources", "none is given", "--prometheus URL, --sonic SWITCH=ADDRESS, --host or --config FILE"
        )
    where = str(config or "options")
    check_sources(sources, where)
    spec = fabric or spec_of(config, settings)
    shape = Fabric(read_spec(spec)) if spec else None
    parameters = settings.detector_parameters(where)
    shown = Look(shape, parameters, every_s)
    with _reading(shape, sources, settings, every_s, where) as feed:
        print(f"railkeeper: reading; a frame is complete every {every_s:g} s", file=sys.stderr, flush=True)
        for t_s in _frames(every_s, for_s, feed):
            _show(shown.report(feed.frame(t_s)), feed, worst, as_json=as_json)


@contextlib.contextmanager
def _reading(
    shape: Fabric | None, sources: list[AnySource], settings: Settings, every_s: float, where: str
) -> Iterator[SourceFeed]:
    """Give a feed that runs as long as the context."""
    feed = open_feed(
        settings, sources, shape, frame_s=every_s, where=where,
        complain=lambda text: print(f"railkeeper: {text}", file=sys.stderr, flush=True),
    )  # fmt: skip
    # Right after an installation this takes some seconds, which the first frame must not.
    warm_up()
    feed.start()
    try:
        yield feed
    finally:
        feed.close()


def _asked(prometheus: list[str], sonic: list[str], host: bool, every_s: float) -> list[AnySource]:
    """Return the sources that options name."""
    times: dict[str, Any] = {"interval_s": every_s / 2, "timeout_s": min(5.0, every_s / 2)}
    asked: list[AnySource] = []
    if prometheus:
        asked.append(PrometheusSource(kind="prometheus", name="prometheus", targets=prometheus, **times))
    if sonic:
        asked.append(SonicSource(kind="sonic", name="sonic", targets=_switches(sonic), **times))
    if host:
        asked.append(HostSource(kind="host", name="host", **times))
    return asked


def _switches(texts: list[str]) -> dict[str, str]:
    found = [_switch(text) for text in texts]
    for name, address in found:
        if dict(found)[name] != address:
            raise InputError("--sonic", f"gives {name!r} two addresses", "give each switch once")
    return dict(found)


def _switch(text: str) -> tuple[str, str]:
    name, _, address = text.partition("=")
    if not (name and address):
        raise InputError("--sonic", f"is {text!r}", "SWITCH=redis://HOST:PORT")
    return name, address


def _frames(every_s: float, for_s: float | None, feed: SourceFeed) -> Iterator[float]:
    """Yield the end of each frame (unix s) when it has come."""
    # By a clock that nobody sets; a frame that took too long to show puts off the next one.
    begin = time.monotonic()
    due = begin + every_s
    while for_s is None or due <= begin + for_s + 0.001:
        while (left := due - time.monotonic()) > 0:
            time.sleep(min(left, 0.5))
            feed.gather()
        yield time.time()
        due = max(due + every_s, time.monotonic() + every_s / 2)


def _show(report: Report, feed: SourceFeed, worst: int, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(_document(report, feed, worst), allow_nan=False), flush=True)
    else:
        screen().print(_page(report, feed, worst))


def _document(report: Report, feed: SourceFeed, worst: int) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "t": round(report.t_s, 3),
        "seen": report.seen,
        "levels": {
            sli: {plane: {"good": good, "total": total, "ratio": good / total} for plane, (good, total) in by.items()}
            for sli, by in report.levels.items()
        },
        "not_well": len(report.parts),
        "worst": [_part(part) for part in report.parts[:worst]],
        "judged": report.judged,
        "no_data": report.blind,
        "errors": report.errors,
        "sources": [
            {"source": s.source, "target": s.target, "state": s.state, "age_s": _age(s), "error": s.error}
            for s in feed.statuses()
        ],
        "values": vars(feed.assembler.counts),
        "unbound": len(feed.assembler.unbound),
        "unplaced": len(feed.assembler.unplaced),
    }


def _age(status: Any) -> float | None:
    return None if status.last_ok_ns is None else round(max(time.time() - status.last_ok_ns / 1e9, 0.0), 3)


def _part(part: Part) -> dict[str, Any]:
    findings = [
        {
            "detector": f.detector, "signal": f.signal, "verdict": f.verdict, "value": _plain(f.value),
            "expected": _plain(f.expected), "unit": f.unit, "against": f.against, "since_s": round(f.since_s, 3),
            "confidence": _plain(round(f.confidence, 4)), "evidence": list(f.evidence),
        }
        for f in part.findings
    ]  # fmt: skip
    return {"name": part.name, "score": round(part.score, 4), "findings": findings}


def _plain(value: float) -> float | None:
    return float(value) if value == value and abs(value) != float("inf") else None  # noqa: PLR0124  NaN


def _page(report: Report, feed: SourceFeed, worst: int) -> Group:
    clock = time.strftime("%H:%M:%S", time.localtime(report.t_s))
    seen = (
        ", ".join(f"{n} {kind if n == 1 else PLURALS.get(kind, f'{kind}s')}" for kind, n in report.seen.items())
        or "nothing"
    )
    head = Text(f"{clock}  read: {seen}", style="bold")
    return Group(head, _sources(feed), _levels(report), *_parts(report, worst), _leftovers(report, feed))


def _sources(feed: SourceFeed) -> Table:
    statuses = feed.statuses()
    table = Table("source", "targets", "that answer", "oldest answer", "trouble")
    for name in dict.fromkeys(s.source for s in statuses):
        mine = [s for s in statuses if s.source == name]
        good = [s for s in mine if s.state == "ok"]
        ages = [age for s in good if (age := _age(s)) is not None]
        trouble = next((f"{s.target}: {s.error}" for s in mine if s.error and s.state != "ok"), "")
        table.add_row(name, str(len(mine)), str(len(good)), f"{max(ages):.0f} s" if ages else "-", trouble)
    return table


def _levels(report: Report) -> Table | Text:
    planes = sorted({plane for by in report.levels.values() for plane in by}, key=lambda p: (len(p), p))
    if not planes:
        return Text("No port was read: no service level can be told.", style="yellow")
    table = Table("good share of", *planes)
    for sli, by in report.levels.items():
        table.add_row(sli, *(_share(by.get(plane)) for plane in planes))
    return table


def _share(amounts: tuple[float, float] | None) -> str:
    if amounts is None:
        return "[dim]no data[/]"
    share = amounts[0] / amounts[1]
    colour = "green" if share >= 0.9999 else "yellow" if share >= 0.99 else "red"
    return f"[{colour}]{100 * share:.4f}%[/]"


def _parts(report: Report, worst: int) -> list[Text]:
    if not report.judged:
        what = "Nothing can be judged yet: that needs some frames." if report.seen else "Nothing was read."
        return [Text(what, style="yellow")]
    if not report.parts:
        return [Text("Nothing that could be judged is unwell.", style="green")]
    n = len(report.parts)
    out = [Text(f"{n} parts are not well; the worst:" if n > 1 else "One part is not well:", style="bold")]
    for number, part in enumerate(report.parts[:worst], 1):
        verdict = part.findings[0].verdict
        out.append(Text(f"{number}. {part.name}: {verdict}", style="red" if verdict == "failed" else "yellow"))
        lines = [f"{f.detector}: {line}" for f in part.findings for line in f.evidence or (f.signal,)]
        out += [Text(f"   {line}") for line in lines[:SHOWN_EVIDENCE]]
    return out


def _some(what: str, kept: Leftovers) -> str:
    """Return how many there are, and some of them."""
    names = [" ".join(key) for key in itertools.islice(kept.report(), SHOWN_LEFTOVERS)]
    names += ["…"] if len(kept) > len(names) else []
    return f"{len(kept)} {what}" + (f" ({', '.join(names)})" if names else "")


def _leftovers(report: Report, feed: SourceFeed) -> Text:
    blind = len({name.partition("/")[0] for name, n in report.blind.items() if n})
    text = f"{_some('unknown names', feed.assembler.unbound)}; "
    text += f"{_some('objects without a place', feed.assembler.unplaced)}; "
    text += f"{blind} detectors lack data of some entities"
    for name, error in report.errors.items():
        text += f"\n{name} failed: {error}"
    return Text(text, style="dim")
