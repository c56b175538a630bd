"""A machine that can't hold a lab says what is missing."""

import shutil
import subprocess
import sys

import pytest
from lab_packets import small_fabric

from railkeeper.base.errors import CapabilityError, OutsideError
from railkeeper.lab import capability
from railkeeper.lab.build import build

NOT_ROOT = """
import ctypes, os
from railkeeper.base.errors import CapabilityError
from railkeeper.lab.capability import check_capability
os.setuid(65534)
try:
    check_capability()
except CapabilityError as e:
    print(e)
"""


def test_without_root_the_message_says_so():
    done = subprocess.run([sys.executable, "-c", NOT_ROOT], capture_output=True, text=True, check=True)

    assert "needs root" in done.stdout
    assert "CAP_NET_ADMIN" in done.stdout


@pytest.mark.lab
def test_without_nft_the_message_says_what_to_install(capable, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "nft" else f"/sbin/{name}")
    with pytest.raises(CapabilityError, match="apt-get install nftables"):
        build(small_fabric())


@pytest.mark.lab
def test_without_srv6_the_message_says_what_the_kernel_lacks(capable, monkeypatch):
    def refuse(_kind):
        raise OutsideError("SRv6 End: Operation not supported")

    capability.sid_kind.cache_clear()
    monkeypatch.setattr(capability, "_try", refuse)
    with pytest.raises(CapabilityError, match=r"CONFIG_IPV6_SEG6_LWTUNNEL.*Operation not supported"):
        build(small_fabric())
    capability.sid_kind.cache_clear()


@pytest.mark.lab
def test_this_machine_has_a_link_kind_that_can_hold_usids(capable):
    assert capability.sid_kind() in capability.SID_KINDS
