"""The error tree: one branch per thing a caller would do differently.

RailkeeperError
├── InputError(ValueError)      the user's file, line, field or argument is wrong: exit 2
├── CapabilityError             this machine or account can't do it (no root, no SRv6): exit 2
└── OutsideError(OSError)       something outside failed: exit 3; `retry` says whether again could help
"""

from __future__ import annotations


class RailkeeperError(Exception):
    """Every error that Railkeeper raises on purpose."""


class InputError(RailkeeperError, ValueError):
    """Bad input: names where it stands and what would be right.

    `where` is a file, a line, a field or an argument, e.g. ``spec.toml: fabric.planes``.
    """

    def __init__(self, where: str, problem: str, right: str) -> None:
        super().__init__(f"{where}: {problem}; {right}" if right else f"{where}: {problem}")
        self.where = where
        self.problem = problem
        self.right = right

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str, str]]:
        # Exceptions are pickled by their message alone; this one must also come whole out of a child process.
        return type(self), (self.where, self.problem, self.right)


class CapabilityError(RailkeeperError):
    """This machine, kernel or account lacks something that the command needs."""


class OutsideError(RailkeeperError, OSError):
    """A program, kernel call or peer outside Railkeeper failed."""

    def __init__(self, message: str, *, retry: bool = False) -> None:
        super().__init__(message)
        self.retry = retry
