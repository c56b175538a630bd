"""The live view in the terminal: planes x links, incidents, actions, traffic."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
from rich.columns import Columns
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from railkeeper.app.snapshot import LinkLook
from railkeeper.fabric.names import domain_name

if TYPE_CHECKING:
    import numpy.typing as npt
    from rich.console import RenderableType

    from railkeeper.app.snapshot import Line, Snapshot
    from railkeeper.fabric.model import Fabric

GLYPHS = {
    LinkLook.OK: ("·", "green"),
    LinkLook.NO_DATA: ("?", "yellow"),
    LinkLook.DENIED: ("x", "magenta"),
    LinkLook.DEGRADED: ("▒", "bold yellow"),
    LinkLook.FAILED: ("█", "bold red"),
}
LEGEND = "· ok   ▒ degraded   █ failed   x denied   ? no data"
MAX_CELLS = 32
MAX_PLANES = 8


def render(fabric: Fabric, shot: Snapshot, *, title: str = "") -> RenderableType:
    """Return the whole view of a snapshot."""
    planes = [_plane_panel(fabric, shot, d) for d in range(min(fabric.n_domains, MAX_PLANES))]
    parts: list[RenderableType] = [_headline(fabric, shot, title), Columns(planes), Text(LEGEND, style="dim")]
    parts.append(_table("Incidents", ("incident", "target", "kind", "how much", "state"), shot.incidents))
    parts.append(_table("Actions", ("action", "target", "state", "why"), shot.actions))
    parts += [Text(f"▶ {note}", style="bold cyan") for note in shot.notes]
    return Group(*parts)


def _headline(fabric: Fabric, shot: Snapshot, title: str) -> Text:
    when = datetime.fromtimestamp(shot.t_s, tz=UTC).strftime("%H:%M:%S")
    text = Text(f"{title or 'Railkeeper'}  ", style="bold")
    text.append(f"{fabric.name} · {shot.world} · {when} UTC · tick {shot.tick}\n", style="dim")
    reporting, expected = shot.agents
    text.append(f"agents {reporting}/{expected}", style="green" if reporting == expected else "yellow")
    text.append(f"   paths judged {shot.judged_rows}   denied directed links {shot.denied_links}")
    if shot.goodput_bps is not None and shot.traffic_loss is not None:
        text.append(f"   traffic {shot.goodput_bps / 1e6:.1f} Mbit/s, loss ")
        text.append(f"{shot.traffic_loss:.3%}", style="red" if shot.traffic_loss > 1e-3 else "green")
    return text


def _plane_panel(fabric: Fabric, shot: Snapshot, domain: int) -> Panel:
    uplinks = shot.links[fabric.n_ports :].reshape(fabric.n_domains, fabric.t0_per_plane, fabric.t1_per_plane)
    hosts = host_looks(fabric, shot.links, domain)
    body = Text(f"{'T0':<5}{'NICs':<{max(4, min(fabric.nics_per_t0, MAX_CELLS))}}  T1s\n", style="dim")
    for label, host_row, up_row in zip(*_squeeze(fabric, hosts, uplinks[domain]), strict=True):
        body.append(f"{label:<5}", style="dim")
        _cells(body, host_row)
        body.append("  ")
        _cells(body, up_row)
        body.append("\n")
    return Panel(body, title=f"plane {domain_name(fabric, domain)}", expand=False)


def host_looks(fabric: Fabric, links: npt.NDArray[np.int8], domain: int) -> npt.NDArray[np.int8]:
    """Return (t0_per_plane, nics_per_t0) looks of the NIC-T0 links of one plane."""
    rail, plane = divmod(domain, fabric.planes)
    nics = np.arange(rail if fabric.rails > 1 else 0, fabric.n_nics, fabric.rails)
    return links[fabric.port_link(nics, plane)].reshape(fabric.t0_per_plane, fabric.nics_per_t0)


def _squeeze(
    fabric: Fabric, hosts: npt.NDArray[np.int8], ups: npt.NDArray[np.int8]
) -> tuple[list[str], npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    """Fold rows and columns of large fabrics so that the worst of the folded cells shows."""
    rows = math.ceil(fabric.t0_per_plane / MAX_CELLS)
    labels = [f"{i}" if rows == 1 else f"{i}+" for i in range(0, fabric.t0_per_plane, rows)]
    return labels, _fold(hosts, rows), _fold(ups, rows)


def _fold(cells: npt.NDArray[np.int8], rows: int) -> npt.NDArray[np.int8]:
    columns = math.ceil(cells.shape[1] / MAX_CELLS)
    pad = ((0, -cells.shape[0] % rows), (0, -cells.shape[1] % columns))
    padded = np.pad(cells, pad)
    shape = (padded.shape[0] // rows, rows, padded.shape[1] // columns, columns)
    return np.asarray(padded.reshape(shape).max(axis=(1, 3)))


def _cells(text: Text, row: npt.NDArray[np.int8]) -> None:
    for look in row:
        glyph, style = GLYPHS[LinkLook(int(look))]
        text.append(glyph, style=style)


def _table(title: str, columns: tuple[str, ...], lines: tuple[Line, ...]) -> RenderableType:
    if not lines:
        return Text(f"{title}: none", style="dim")
    table = Table(title=title, title_justify="left", title_style="bold", expand=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for line in lines:
        table.add_row(*line.cells, style="red" if line.bad else "dim")
    return table
