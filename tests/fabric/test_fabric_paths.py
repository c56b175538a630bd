"""Outer addresses and links crossed, against packets that follow static tables."""

from __future__ import annotations

import ipaddress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapes import fabrics, make_fabric, walk, wire

from railkeeper.base.errors import InputError
from railkeeper.fabric import address
from railkeeper.fabric.names import directed_name, nic_name
from railkeeper.fabric.paths import PathKind, Paths, join_paths, links_crossed, make_paths, outer_addresses, same_t0


def random_paths(fabric, seed: int, n: int = 40) -> Paths:
    """Draw paths of all kinds; a receiver is a NIC of the same rail, sometimes the sender itself."""
    rng = np.random.default_rng(seed)
    src = rng.integers(0, fabric.n_nics, n)
    peer = src % fabric.rails + fabric.rails * rng.integers(0, fabric.n_nics // fabric.rails, n)
    kind = rng.integers(0, len(PathKind), n)
    t1, back = rng.integers(0, fabric.t1_per_plane, (2, n))
    far = rng.integers(0, fabric.t0_per_plane, n)
    used = lambda column, *kinds: np.where(np.isin(kind, kinds), column, -1)  # noqa: E731
    return make_paths(
        kind, src, rng.integers(0, fabric.planes, n),
        dst=np.where(kind == PathKind.ONEWAY, peer, src),
        t1=used(t1, PathKind.T1_BOUNCE, PathKind.FAR_BOUNCE, PathKind.ONEWAY),
        far=used(far, PathKind.FAR_BOUNCE), back=used(back, PathKind.FAR_BOUNCE),
    )  # fmt: skip


@given(fabrics(), st.integers(0, 2**32))
def test_a_packet_visits_the_links_of_its_path_and_ends_at_its_nic(fabric, seed):
    paths, wiring = random_paths(fabric, seed), wire(fabric)
    crossed, outer = links_crossed(fabric, paths), outer_addresses(fabric, paths)
    for i in range(len(paths)):
        src, dst = nic_name(fabric, paths.src[i]), nic_name(fabric, paths.dst[i])

        links, end = walk(wiring, src, int(paths.plane[i]), outer[i].tobytes())

        assert end == dst
        assert [directed_name(fabric, link) for link in crossed[i] if link >= 0] == links


@given(fabrics(), st.integers(0, 2**32))
def test_padding_of_links_is_at_the_end(fabric, seed):
    crossed = links_crossed(fabric, random_paths(fabric, seed))

    assert not ((crossed[:, :-1] < 0) & (crossed[:, 1:] >= 0)).any()
    assert crossed.max() < 2 * fabric.n_links


@given(st.integers(0, 0xFFFF), st.lists(st.integers(1, 0xFFFF), min_size=1, max_size=6))
def test_addresses_decode_to_what_was_encoded(domain, usids):
    outer = address.encode(domain, usids)

    assert address.decode(outer) == (domain, usids)
    assert ipaddress.IPv6Address(address.text(outer)).packed == outer
    assert ipaddress.IPv6Address(outer) in ipaddress.ip_network(address.block(domain))


@given(st.integers(0, 0xFFFF), st.lists(st.integers(1, 0xFFFF), min_size=2, max_size=6))
def test_a_shift_takes_the_first_usid_away(domain, usids):
    assert address.decode(address.shift(address.encode(domain, usids))) == (domain, usids[1:])


@given(
    st.lists(
        st.tuples(st.integers(0, 0xFFFF), st.lists(st.integers(1, 0xFFFF), min_size=1, max_size=6)),
        min_size=1, max_size=20,
    )
)  # fmt: skip
def test_encoding_rows_is_encoding_one_by_one(rows):
    usids = np.array([u + [0] * (6 - len(u)) for _, u in rows])

    encoded = address.encode_rows([d for d, _ in rows], usids)

    assert [r.tobytes() for r in encoded] == [address.encode(d, u) for d, u in rows]


@pytest.mark.parametrize("usids", [[], [1] * 7, [0], [1, 0, 2], [0x10000], [-1]])
def test_usids_that_no_address_holds_are_refused(usids):
    with pytest.raises(ValueError, match="uSID"):
        address.encode(0, usids)


@given(st.binary(max_size=20))
def test_decode_of_anything_gives_input_errors_only(data):
    try:
        domain, usids = address.decode(data)
    except InputError:
        return
    assert address.encode(domain, usids) == data


@pytest.mark.parametrize(
    ("words", "right"),
    [
        ("fcbb 0001 0000 0000 0000 0000 0000 0000", "uSIDs first"),
        ("fcbb 0001 0100 0000 8000 0000 0000 0000", "uSIDs first"),
        ("fcbc 0001 0100 0000 0000 0000 0000 0000", "this plan"),
        ("fcbb 0001", "this plan"),
    ],
)
def test_addresses_of_no_plan(words, right):
    with pytest.raises(InputError) as e:
        address.decode(bytes.fromhex(words))

    assert right in e.value.right


def test_the_address_of_a_known_path():
    fabric = make_fabric()
    path = make_paths(PathKind.ONEWAY, 0, 1, dst=5, t1=2)

    outer = outer_addresses(fabric, path)[0].tobytes()

    assert address.text(outer) == "fcbb:1:100:8002:101:e001::"
    assert address.text(address.nic_address(fabric, 5, 1)) == "fcbb:1:e001::"


def test_a_nic_under_the_same_t0_is_reached_without_a_t1():
    fabric = make_fabric()
    path = make_paths(PathKind.ONEWAY, 0, 0, dst=1, t1=2)

    assert same_t0(fabric, path).all()
    assert address.text(outer_addresses(fabric, path)[0].tobytes()) == "fcbb:0:100:e001::"


@given(fabrics(), st.integers(0, 2**32))
def test_rows_can_be_taken_and_joined(fabric, seed):
    paths = random_paths(fabric, seed)
    order = np.argsort(paths.src, kind="stable")

    joined = join_paths([paths.take(slice(0, 7)), paths.take(slice(7, None))])

    assert (joined.key() == paths.key()).all()
    assert (paths.take(order).key() == paths.key()[order]).all()
    assert (links_crossed(fabric, paths.take(order)) == links_crossed(fabric, paths)[order]).all()
