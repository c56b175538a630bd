"""Fat trees of k pods, with arithmetic instead of search for their paths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from railkeeper.health.infer.topology import Topology, topology

FIRST_HOST = 10_000


@dataclass(frozen=True)
class FatTree:
    """k pods of k/2 racks and k/2 aggregation switches each, (k/2)^2 cores; `hosts_per_rack` hosts under each rack.

    Ids: racks from 0 on, then aggregation switches, then cores; hosts from `FIRST_HOST` on.
    """

    k: int
    hosts_per_rack: int

    @property
    def half(self) -> int:
        """Half of k: racks and aggregation switches of a pod, cores of an aggregation switch."""
        return self.k // 2

    @property
    def racks(self) -> int:
        """Number of racks, and of aggregation switches."""
        return self.k * self.half

    @property
    def cores(self) -> int:
        """Number of cores."""
        return self.half**2

    @property
    def hosts(self) -> int:
        """Number of hosts."""
        return self.racks * self.hosts_per_rack

    def agg(self, pod: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Return the id of aggregation switch a of a pod."""
        return np.asarray(self.racks + pod * self.half + a)

    def core(self, a: np.ndarray, c: np.ndarray) -> np.ndarray:
        """Return the id of core c of those over the aggregation switches a."""
        return np.asarray(2 * self.racks + a * self.half + c)

    def network(self) -> Topology:
        """Return its links."""
        pod, a, b = (x.ravel() for x in np.meshgrid(np.arange(self.k), *[np.arange(self.half)] * 2, indexing="ij"))
        low = np.stack([pod * self.half + a, self.agg(pod, b)], axis=1)
        high = np.stack([self.agg(pod, a), self.core(a, b)], axis=1)
        host = np.arange(self.hosts)
        return topology(np.concatenate([low, high]), np.stack([FIRST_HOST + host, host // self.hosts_per_rack], axis=1))

    def ways(self, first: np.ndarray, last: np.ndarray, a: np.ndarray, c: np.ndarray) -> np.ndarray:
        """Return (N, 5) switches of the paths from racks `first` to racks `last`, -1 after the end.

        Of the possible ways the one over aggregation switch a and its core c; within a pod over a only.
        """
        pods = first // self.half, last // self.half
        out = np.full((len(first), 5), -1, dtype=np.int64)
        out[:, 0] = first
        near, far = (first != last) & (pods[0] == pods[1]), pods[0] != pods[1]
        out[near, 1], out[near, 2] = self.agg(pods[0], a)[near], last[near]
        out[far, 1], out[far, 2] = self.agg(pods[0], a)[far], self.core(a, c)[far]
        out[far, 3], out[far, 4] = self.agg(pods[1], a)[far], last[far]
        return out
