"""Together: findings that one part explains are told as one: a switch that restarts is not 256 links that fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.telemetry.entities import NIC_END

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.telemetry.entities import Entities

    Ids = npt.NDArray[np.int32]
    Keys = npt.NDArray[np.int64]

# One part is to blame when half of its ends are hit, and at least this many.
LEAST, SHARE = 4, 0.5
# More parts than this at once are not single parts: then it is told by group of peers.
MOST_GROUPS = 1000


@dataclass(frozen=True)
class Group:
    """Entities told as one: positions (m,) in the ids that were given, and in words what they have in common."""

    members: npt.NDArray[np.int64]
    words: str


class Owners:
    """Owners of entities as keys, and how many ends each has; counted when first asked."""

    def __init__(self, entities: Entities) -> None:
        self.entities = entities
        self._sizes: Keys | None = None

    def keys(self, ids: Ids | slice) -> Keys:
        """Return (m,) keys: NICs and switches are numbered apart; -1 unknown."""
        owner = self.entities.owner[ids].astype(np.int64)
        return np.where(owner >= 0, owner * 2 + (self.entities.role[ids] != NIC_END), -1)

    def sizes(self, keys: Keys) -> Keys:
        """Return (m,) number of entities that each owner has."""
        if self._sizes is None:
            every = self.keys(slice(None))
            self._sizes = np.bincount(every[every >= 0])
        return self._sizes[keys]


def together(owners: Owners, ids: Ids) -> list[Group]:
    """Return groups that cover `ids` (m,) once each, in the order of their first member."""
    if len(ids) < LEAST:
        return [Group(np.array([i]), "") for i in range(len(ids))]
    keys = _blamed(owners, ids)
    groups = _by(np.where(keys >= 0, keys, -2 - np.arange(len(ids))))
    if len(groups) > MOST_GROUPS:
        found = [Group(g, _of_peers(owners.entities, ids[g])) for g in _by(owners.entities.group[ids])]
    else:
        found = [Group(g, _of_owner(owners, ids[g], int(keys[g[0]]))) for g in groups]
    return sorted(found, key=lambda g: int(g.members[0]))


def _by(keys: npt.NDArray[np.integer]) -> list[npt.NDArray[np.int64]]:
    order = np.argsort(keys, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)


def _blamed(owners: Owners, ids: Ids) -> Keys:
    """Return (m,) key of the owner, of this end or of the other, most of whose ends are hit; -1 where there is none."""
    near, other = owners.keys(ids), owners.entities.other[ids]
    far = np.where(other >= 0, owners.keys(np.maximum(other, 0)), -1)
    link = np.where(other >= 0, np.minimum(ids, other), ids).astype(np.int64)
    pairs = np.unique(np.stack([np.concatenate([near, far]), np.concatenate([link, link])]), axis=1)
    keys, counts = np.unique(pairs[0][pairs[0] >= 0], return_counts=True)
    if not len(keys):
        return np.full(len(ids), -1)
    enough = counts >= np.maximum(LEAST, SHARE * owners.sizes(keys))
    score = np.where(enough, counts, 0)
    mine, theirs = (_score(keys, score, k) for k in (near, far))
    return np.where((mine >= theirs) & (mine > 0), near, np.where(theirs > 0, far, -1))


def _score(keys: Keys, score: Keys, asked: Keys) -> Keys:
    place = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.where((asked >= 0) & (keys[place] == asked), score[place], 0)


def _of_owner(owners: Owners, ids: Ids, key: int) -> str:
    if len(ids) == 1:
        return ""
    near = int(owners.keys(ids[:1])[0]) == key
    end = int(ids[0]) if near else int(owners.entities.other[ids[0]])
    size = int(owners.sizes(np.array([key]))[0])
    return f"{len(ids)} of the {size} ends of {owner_name(owners.entities, end)}: one part, not {len(ids)} links"


def owner_name(entities: Entities, port: int) -> str:
    """Return in words what a port, or another entity, belongs to."""
    name = entities.name_of(port)
    if "@" in name:
        return name.partition("@")[2]
    if entities.kind != "port":
        return f"the owner of {name}"
    return f"the NIC of {name}" if entities.role[port] == NIC_END else f"the switch of {name}"


def _of_peers(entities: Entities, ids: Ids) -> str:
    if len(ids) == 1:
        return ""
    return f"{len(ids)} of {int(entities.group_size[entities.group[ids[0]]])} like {entities.name_of(int(ids[0]))}"
