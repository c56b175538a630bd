"""The ring: who sends to whom, and how far each may go."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railkeeper.base.errors import InputError
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import parse_spec
from railkeeper.lab.traffic.ring import Ring, rings


def fabric(**shape) -> Fabric:
    fields = {"planes": 2, "t0_per_plane": 4, "t1_per_plane": 4, "nics_per_t0": 4} | shape
    return Fabric(parse_spec("[fabric]\n" + "\n".join(f"{k}={v}" for k, v in fields.items())))


def test_across_puts_neighbours_under_different_t0s():
    f = fabric()
    (ring,) = rings(f)
    assert sorted(ring.nics) == list(range(16))
    assert all(f.nic_t0_index[n] != f.nic_t0_index[ring.successor(n)] for n in ring.nics)
    assert all(ring.predecessor(ring.successor(n)) == n for n in ring.nics)


def test_packed_goes_through_a_t0_first():
    (ring,) = rings(fabric(), order="packed")
    assert ring.nics == tuple(range(16))


def test_each_rail_has_a_ring_of_its_own():
    f = fabric(nics_per_node=2, rails=2)
    both = rings(f)
    assert [len(r.nics) for r in both] == [16, 16]
    assert all(len(set(f.nic_rail[list(r.nics)])) == 1 for r in both)


def test_a_single_nic_has_none():
    assert rings(fabric(t0_per_plane=1, nics_per_t0=1)) == []


def test_another_order_is_an_error_that_says_what_is_right():
    with pytest.raises(InputError, match="across, packed"):
        rings(fabric(), order="random")


@given(n=st.integers(2, 7), chunk=st.integers(1, 5), seed=st.integers(0, 1 << 20))
def test_it_never_stalls_and_no_one_is_a_round_ahead(n, chunk, seed):
    rng = np.random.default_rng(seed)
    ring = Ring(tuple(range(n)), chunk)
    a_round = ring.steps * chunk
    received, sent = [0] * n, [0] * n
    while min(received) < 2 * a_round:
        ready = [i for i in range(n) if sent[i] < ring.limit(received[i])]
        assert ready, (received, sent)
        i = int(rng.choice(ready))
        sent[i] += 1
        received[(i + 1) % n] += 1
        done = [r // a_round for r in received]
        assert max(s - 1 for s in sent) // a_round <= min(done) + 1
    assert ring.limit(0) == min(chunk, a_round)
