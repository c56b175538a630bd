"""Real labs for tests: each under a prefix of its own; skipped, with the reason, where the machine can't."""

import itertools
import os

import pytest
from lab_packets import small_fabric

from railkeeper.base.errors import CapabilityError
from railkeeper.lab.build import build
from railkeeper.lab.capability import check_capability

_count = itertools.count()


def unique_prefix():
    return f"t{os.getpid()}x{next(_count)}"


@pytest.fixture(scope="session")
def capable():
    try:
        check_capability()
    except CapabilityError as e:
        pytest.skip(str(e))


@pytest.fixture
def prefix(capable):
    return unique_prefix()


@pytest.fixture
def lab(prefix):
    with build(small_fabric(), prefix) as lab:
        yield lab


@pytest.fixture
def make_lab(capable):
    """Build labs of other fabrics, closed at the end."""
    labs = []

    def make(fabric):
        labs.append(build(fabric, unique_prefix()))
        return labs[-1]

    yield make
    for lab in labs:
        lab.close()
