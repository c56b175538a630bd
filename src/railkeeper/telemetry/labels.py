"""What the labels of a reading say, whatever its source calls it: host, device, port, netdev, PCI address, switch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# By strength: our own sources say `host`, exporters say the rest.
_HOST = ("host", "hostname", "Hostname", "NIC_HOSTNAME", "nodename", "node", "instance")
_SWITCH = ("switch", "target", "device_name", "node", "host", "instance")

_INTERFACE = ("port", "interface", "interface-id", "name", "component")


def host_of(labels: Mapping[str, str]) -> str:
    """Return the host that labels name, without a port number; "" where they name none."""
    return _first(labels, _HOST)


def switch_of(labels: Mapping[str, str]) -> str:
    """Return the switch that labels name; "" where they name none."""
    return _first(labels, _SWITCH)


def short(name: str) -> str:
    """Return a host's name without its domain; addresses stay whole."""
    return name if name.replace(".", "").isdigit() or ":" in name else name.partition(".")[0]


def interface_of(labels: Mapping[str, str]) -> str:
    """Return the interface of a switch that labels name; "" where they name none."""
    return next((labels[name] for name in _INTERFACE if labels.get(name)), "")


def pci_of(labels: Mapping[str, str]) -> str:
    """Return the PCI address that labels name, as 0000:1a:00.0; "" where they name none."""
    if {"segment", "bus", "device", "function"} <= labels.keys():  # node_exporter's PCI collector
        return f"{labels['segment']}:{labels['bus']}:{labels['device']}.{labels['function']}"
    text = (labels.get("pci") or labels.get("bdf") or labels.get("pci_bus_id") or "").lower()
    return text[-12:] if text.count(":") == 2 else text


def device_of(labels: Mapping[str, str]) -> str:
    """Return the RDMA device or network interface that labels name; "" where they name none."""
    return "" if "segment" in labels else labels.get("device") or labels.get("netdev") or ""


def gpu_of(labels: Mapping[str, str]) -> str:
    """Return the GPU of a host as `gpu3`; "" where labels name none."""
    text = labels.get("gpu") or labels.get("GPU") or labels.get("minor_number") or ""
    return f"gpu{text.lower().removeprefix('gpu')}" if text else ""


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    found = next((labels[name] for name in names if labels.get(name)), "")
    head, colon, tail = found.rpartition(":")
    return head if colon and tail.isdigit() and ":" not in head else found


def part_of(labels: Mapping[str, str], wanted: str) -> str:
    """Return the part that labels say by a rule: `a|b` the first of them that is there, `a+b` both together."""
    for names in wanted.split("|"):
        found = [labels.get(name, "") for name in names.split("+")]
        if all(found):
            return " ".join(found)
    return ""
