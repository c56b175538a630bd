"""What telemetry is about: entities of one kind, as columns, from a fabric or from names that sources bring.

Ports are the two ends of every link: id = 2 * link + end, with end 0 the lower (the NIC's, or the T0's uplink) and 1
the upper (the T0's host-facing port, or the T1's). So the other end of a port is `id ^ 1`, and evidence of both ends
lies side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

KINDS = ("port", "nic", "node", "switch", "gpu")
# Roles of ports.
NIC_END, T0_HOST, T0_UPLINK, T1_DOWN, UNKNOWN_ROLE = 0, 1, 2, 3, 4
ROLE_NAMES = ("NIC port", "T0 host-facing port", "T0 uplink", "T1 port", "port")


@dataclass(frozen=True)
class Entities:
    """Entities of one kind.

    - domain: (n,) int16: rail * planes + plane; -1 unknown or all of them
    - role: (n,) int8: of ports: NIC_END … UNKNOWN_ROLE; of switches: 0 T0, 1 T1; else 0
    - owner: (n,) int32: of ports: the NIC (role NIC_END), else the switch (T0s, then T1s), -1 unknown; of NICs: their
      node
    - other: (n,) int32: of ports: the other end of the link, -1 unknown
    - group: (n,) int16: peers: same role and domain; 0 … n_groups - 1
    - name_of, id_of: between id and name; id_of gives None for a name that is not there
    """

    kind: str
    domain: npt.NDArray[np.int16]
    role: npt.NDArray[np.int8]
    owner: npt.NDArray[np.int32]
    other: npt.NDArray[np.int32]
    group: npt.NDArray[np.int16]
    n_groups: int
    name_of: Callable[[int], str]
    id_of: Callable[[str], int | None]

    def __len__(self) -> int:
        return len(self.role)

    @cached_property
    def group_size(self) -> npt.NDArray[np.int64]:
        """(n_groups,) number of entities of each group of peers."""
        return np.bincount(self.group, minlength=self.n_groups)
