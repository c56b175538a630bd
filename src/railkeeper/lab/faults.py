"""Breaks a lab as a fault file says, on real packets, and mends it again."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railkeeper.base.errors import InputError
from railkeeper.lab.effects import Effect, Effects, Processes
from railkeeper.lab.filters import Filter
from railkeeper.lab.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Callable

    from railkeeper.fabric.faults import InjectedFault
    from railkeeper.lab.build import Lab


@dataclass
class _Active:
    fault: InjectedFault
    effect: Effect
    over: bool = False
    timers: list[threading.Event] = field(default_factory=list)


class Injector:
    """All faults that a lab has at the moment. Threads may call it at will."""

    def __init__(self, lab: Lab, crew: Processes | None = None) -> None:
        self._effects = Effects(lab.plan, crew)
        self._timers = Timers()
        self._active: dict[str, _Active] = {}
        self._serial = 0
        self._lock = threading.RLock()
        lab.at_close(self.close)

    def inject(self, fault: InjectedFault) -> None:
        """Break what the fault says; raises InputError when a fault of this id is active already."""
        with self._lock:
            if fault.id in self._active:
                raise InputError(f"fault {fault.id}", "is active already", "clear it first")
            self._serial += 1
            active = _Active(fault, self._effects.make(fault, f"rk{self._serial}"))
            with ExitStack() as undo:
                undo.callback(active.effect.stop)
                active.effect.start()
                undo.pop_all()
            self._active[fault.id] = active
            self._plan_ahead(active)

    def clear(self, fault_id: str) -> None:
        """Mend what a fault broke; unknown ids are no error."""
        with self._lock:
            active = self._active.get(fault_id)
            if active is not None:
                for timer in active.timers:
                    timer.set()
                active.effect.stop()
                del self._active[fault_id]  # what could not be mended can be cleared again

    def clear_all(self) -> None:
        """Mend everything."""
        with ExitStack() as stack:  # one that fails does not keep the others
            for fault in self.active():
                stack.callback(self.clear, fault.id)

    def active(self) -> tuple[InjectedFault, ...]:
        """Return the faults injected and not cleared, in that order."""
        with self._lock:
            return tuple(a.fault for a in self._active.values())

    def over(self, fault_id: str) -> bool:
        """Return whether a fault has no effect any more: cleared, or a reboot or optic flap that has ended."""
        with self._lock:
            return fault_id not in self._active or self._active[fault_id].over

    def packets_hit(self, fault_id: str) -> int:
        """Return how many packets a loss, corrupt, black-hole or one-way fault has hit; 0 for other kinds."""
        with self._lock:
            effect = self._active[fault_id].effect
            return effect.packets() if isinstance(effect, Filter) else 0

    def close(self) -> None:
        """Mend everything and end the helpers; the lab does so when it closes."""
        with ExitStack() as stack:
            stack.callback(self._effects.close)
            stack.callback(self._timers.close)
            self.clear_all()

    # -- what happens later -------------------------------------------------------------------------
    def _plan_ahead(self, active: _Active) -> None:
        fault = active.fault
        if fault.kind in {"reboot", "optic"}:
            self._later(active, fault.seconds, self._end)
        elif fault.kind == "flap":
            self._later(active, fault.down_s, self._flap_up)

    def _later(self, active: _Active, seconds: float, action: Callable[[_Active], None]) -> None:
        active.timers = [self._timers.after(seconds, lambda: self._still(active, action))]

    def _still(self, active: _Active, action: Callable[[_Active], None]) -> None:
        with self._lock:
            if self._active.get(active.fault.id) is active:
                action(active)

    def _end(self, active: _Active) -> None:
        active.effect.stop()
        active.over = True

    def _flap_up(self, active: _Active) -> None:
        active.effect.stop()
        self._later(active, active.fault.up_s, self._flap_down)

    def _flap_down(self, active: _Active) -> None:
        active.effect.start()
        self._later(active, active.fault.down_s, self._flap_up)
