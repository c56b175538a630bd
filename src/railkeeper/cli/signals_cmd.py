"""`railkeeper signals`: what is measured, and what vendors call it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from railkeeper.base.errors import InputError, OutsideError
from railkeeper.cli import signals_text
from railkeeper.cli.errors import print_json
from railkeeper.telemetry.bind import Binder, Bound, Known
from railkeeper.telemetry.bindings import Binding, Dialect, read_dialect
from railkeeper.telemetry.native_names import Listing, names_in
from railkeeper.telemetry.signals import Signal, catalogue

MOST_BYTES = 64_000_000
EXPORTERS = ("node_exporter", "dcgm", "prometheus")


def signals(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Explain this signal, e.g. pfc_rx_frames.", show_default=False)
    ] = "",
    *,
    dialect: Annotated[str, typer.Option(help="Only this dialect, e.g. mlx5.hw.", show_default=False)] = "",
    native: Annotated[str, typer.Option(help="Say what a vendor's name means.", show_default=False)] = "",
    unbound: Annotated[
        str, typer.Option(metavar="FILE", help="Say which names in a file (- for standard input) mean nothing here.")
    ] = "",
    bindings: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Also take these bindings in.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List the signals, explain one, or say what a vendor's name means."""
    if sum(map(bool, (name, native, unbound))) > 1:
        raise InputError("signals", "more than one of NAME, --native and --unbound", "give one of them")
    binder = Binder([read_dialect(_read(path), where=str(path)) for path in bindings or ()])
    chosen = _dialects(binder, dialect)
    if unbound:
        _answer(_unbound(binder, chosen, unbound, given=dialect), signals_text.print_unbound, as_json=json)
    elif native:
        _answer(_native(binder, chosen, native), signals_text.print_native, as_json=json)
    elif name:
        _answer(_explain(chosen, name), signals_text.print_signals, as_json=json)
    elif dialect:
        _answer(_dialect(chosen[0]), signals_text.print_dialect, as_json=json)
    else:
        _answer(_list(binder), signals_text.print_list, as_json=json)


def _answer(data: dict[str, Any], show: Any, *, as_json: bool) -> None:
    if as_json:
        print_json(data)
    else:
        show(data)


def _dialects(binder: Binder, name: str) -> tuple[Dialect, ...]:
    if not name:
        return binder.dialects
    found = binder.dialect(name)
    if found is None:
        raise InputError(
            "--dialect", f"there is no dialect {name!r}", "one of " + ", ".join(d.name for d in binder.dialects)
        )
    return (found,)


def signal_data(signal: Signal) -> dict[str, Any]:
    """Return a signal as JSON."""
    return {
        "name": signal.full_name, "kind": signal.kind, "unit": signal.unit, "direction": signal.direction or None,
        "parts": signal.parts or None, "absent": signal.absent, "text": signal.text,
    }  # fmt: skip


def binding_data(row: Binding) -> dict[str, Any]:
    """Return a binding as JSON."""
    return {
        "dialect": row.dialect, "native": row.native, "signal": row.signal.full_name, "part": row.part or None,
        "scale": row.scale, "width": row.width if row.signal.is_counter else None, "saturates": row.saturates,
        "adds": bool(row.adds), "rank": row.rank, "note": row.note,
    }  # fmt: skip


def _list(binder: Binder) -> dict[str, Any]:
    dialects = [{"name": d.name, "about": d.about, "bound": len(d.rows)} for d in binder.dialects]
    return {"signals": [signal_data(s) for s in catalogue()], "dialects": dialects}


def _explain(dialects: tuple[Dialect, ...], name: str) -> dict[str, Any]:
    found = catalogue().named(name)
    if not found:
        near = [s.full_name for s in catalogue() if name.lower() in s.full_name][:5]
        right = "did you mean " + ", ".join(near) if near else "railkeeper signals lists them; --native looks others up"
        raise InputError("NAME", f"there is no signal {name!r}", right)
    every = []
    for signal in found:
        rows = [binding_data(r) for d in dialects for r in d.rows if r.signal == signal]
        every.append({**signal_data(signal), "native": rows})
    return {"signals": every}


def _dialect(found: Dialect) -> dict[str, Any]:
    return {
        "dialect": found.name, "about": found.about, "labels": list(found.labels), "aliases": list(found.aliases),
        "bound": [binding_data(r) for r in found.rows],
        "known": [{"native": name, "why": why} for name, why in found.known.items()],
    }  # fmt: skip


def _native(binder: Binder, dialects: tuple[Dialect, ...], native: str) -> dict[str, Any]:
    bound, known = [], []
    for dialect in dialects:
        hit = binder.look(dialect.name, native)
        if isinstance(hit, Bound):
            bound.append({**binding_data(hit.row), "column": hit.column, "text": hit.signal.text})
        elif isinstance(hit, Known) and (len(dialects) == 1 or not hit.catches_all):
            known.append({"dialect": dialect.name, "native": native, "why": hit.why})
    return {"native": native, "bound": bound, "known": known}


def _unbound(binder: Binder, dialects: tuple[Dialect, ...], file: str, *, given: str) -> dict[str, Any]:
    listing = names_in(sys.stdin.read(MOST_BYTES) if file == "-" else _read(Path(file)))
    chosen = dialects if given else _likely(binder, dialects, listing)
    bound, known, unbound = [], [], []
    for name in listing.names:
        hits = [(d, hit) for d in chosen if (hit := binder.look(d.name, name)) and _says(hit, alone=len(chosen) == 1)]
        best = next((h for h in hits if isinstance(h[1], Bound)), hits[0] if hits else None)
        if best is None:
            unbound.append({"native": name, "sample": listing.names[name]})
        elif isinstance(best[1], Bound):
            bound.append({"native": name, "dialect": best[0].name, "signal": best[1].signal.full_name})
        else:
            known.append({"native": name, "dialect": best[0].name, "why": best[1].why})
    return {
        "form": listing.form, "dialects": [d.name for d in chosen], "names": len(listing.names), "bound": bound,
        "known": known, "unbound": unbound,
    }  # fmt: skip


def _says(hit: Bound | Known, *, alone: bool) -> bool:
    """Return whether a dialect says something of just this name; one that takes all names counts only where asked."""
    return alone or isinstance(hit, Bound) or not hit.catches_all


def _likely(binder: Binder, dialects: tuple[Dialect, ...], listing: Listing) -> tuple[Dialect, ...]:
    """Return the dialects that a list of names is of: exporters for their text, else the one that knows the most."""
    if listing.form == "exposition":
        return tuple(d for d in dialects if d.name in EXPORTERS)
    if listing.form == "json":
        return dialects
    bound = {d.name: sum(binder.bind(d.name, n) is not None for n in listing.names) for d in dialects}
    best = max(dialects, key=lambda d: bound[d.name])
    return (best,) if bound[best.name] else ()


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(str(path), "is too large", f"at most {MOST_BYTES} bytes are read")
        return path.read_text(encoding="utf-8", errors="backslashreplace")
    except FileNotFoundError:
        raise InputError(str(path), "does not exist", "name a file, or - for standard input") from None
    except OSError as e:
        raise OutsideError(f"{path}: {e.strerror}") from e
