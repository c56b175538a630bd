"""An engineer points at a Prometheus target, a switch and a host: levels by plane and the worst parts, from real servers."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from redis_server import RedisServer, free_port
from sonic_content import START_NS, SwitchContent

FABRIC = "[fabric]\nplanes = 2\nt0_per_plane = 2\nt1_per_plane = 4\nnics_per_t0 = 8\n"
PLACES = """
[places]
host_table = {{ "127.0.0.1" = "n0", "{host}" = "n0" }}
devices = [{{ match = "eth{{i}}", name = "nic0", plane = "{{i}}" }}]
switch_table = {{ "leaf1" = "p0/t0-0", "leaf2" = "p1/t0-0" }}
interfaces = [
  {{ tier = "t0", match = "Ethernet{{i}}", side = "down", first = 0, step = 4, count = 8 }},
  {{ tier = "t0", match = "Ethernet{{i}}", side = "up", first = 32, step = 4, count = 4 }},
]
"""
BAD = "Ethernet8"
MOST_FRAMES = 60


@pytest.fixture(scope="module")
def switches(tmp_path_factory):
    """Two switches whose counters grow; one port of the first damages frames."""
    servers = [RedisServer(tmp_path_factory.mktemp(f"redis{k}")) for k in range(2)]
    contents = [SwitchContent(server, 12, queues=2) for server in servers]
    for content in contents:
        content.write()
    stop = threading.Event()
    thread = threading.Thread(target=_grow, args=(contents, stop))
    thread.start()
    yield servers
    stop.set()
    thread.join()
    for server in servers:
        server.kill()


def _grow(contents, stop):
    begin = time.monotonic()
    while not stop.wait(0.2):
        passed = time.monotonic() - begin
        for k, content in enumerate(contents):
            pipe = content.server.client(2).pipeline(transaction=False)
            for port in content.ports:
                packets = int(1_000_000 * passed)
                moved = {"SAI_PORT_STAT_IF_IN_UCAST_PKTS": packets, "SAI_PORT_STAT_IF_OUT_UCAST_PKTS": packets}
                moved |= {"SAI_PORT_STAT_IF_IN_OCTETS": 4000 * packets, "SAI_PORT_STAT_IF_OUT_OCTETS": 4000 * packets}
                if k == 0 and port == BAD:
                    moved["SAI_PORT_STAT_IF_IN_ERRORS"] = int(5_000 * passed)
                moved["PORT_STAT_COUNTER_time_stamp"] = START_NS + int(passed * 1e9)
                pipe.hset(f"COUNTERS:{content.port_oid(port)}", mapping=moved)
            pipe.execute()


@pytest.fixture(scope="module")
def exporter():
    if shutil.which("prometheus-node-exporter") is None:
        pytest.skip("prometheus-node-exporter is not installed (Debian: prometheus-node-exporter)")
    port = free_port()
    command = ["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{port}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield f"http://127.0.0.1:{port}/metrics"
    process.kill()
    process.wait()


def command(*options):
    main = "from railkeeper.cli.main import main; main()"
    return [sys.executable, "-c", main, "look", *map(str, options)]


def look(*options, timeout=90):
    return subprocess.run(command(*options), capture_output=True, text=True, timeout=timeout, check=False)


@pytest.fixture(scope="module")
def reports(switches, exporter, tmp_path_factory):
    folder = tmp_path_factory.mktemp("look")
    (folder / "fabric.toml").write_text(FABRIC)
    (folder / "keeper.toml").write_text('[keeper]\nfabric = "fabric.toml"\n' + PLACES.format(host=socket.gethostname()))
    sonic = [f"--sonic=leaf{k + 1}=redis://127.0.0.1:{s.port}" for k, s in enumerate(switches)]
    options = ("--prometheus", exporter, *sonic, "--host", "--config", folder / "keeper.toml", "--every", 2, "--json")
    lines, process = [], subprocess.Popen(command(*options), stdout=subprocess.PIPE, text=True)
    try:
        # findings must last for some frames; how soon these come depends on what else the machine does
        while len(lines) < MOST_FRAMES and not (lines and lines[-1]["worst"] and lines[-1]["levels"].get("delivery")):
            lines.append(json.loads(process.stdout.readline()))
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
        process.stdout.close()
    return lines


def test_all_sources_answer(reports):
    assert {s["state"] for s in reports[-1]["sources"]} == {"ok"}
    assert len(reports[-1]["sources"]) == 4
    assert all(s["age_s"] < 10 for s in reports[-1]["sources"])


def test_planes_have_levels_of_their_own(reports):
    levels = reports[-1]["levels"]
    assert set(levels["delivery"]) == {"p0", "p1"}
    assert levels["delivery"]["p0"]["ratio"] < 1 - 1e-5 < levels["delivery"]["p1"]["ratio"]
    assert levels["link-health"]["p0"]["total"] >= 12
    assert levels["congestion"] == {}  # nobody counts marks: nothing is said


def test_the_damaged_link_is_the_worst_part_with_its_evidence(reports):
    worst = reports[-1]["worst"]
    assert worst[0]["name"].startswith("n2/nic0/p0")
    assert any(f["evidence"] for f in worst[0]["findings"])


def test_every_value_is_accounted_for(reports):
    values = reports[-1]["values"]
    assert values["read"] == sum(n for name, n in values.items() if name != "read")
    assert values["framed"] > 1000


def test_without_a_fabric_all_is_one(switches):
    done = look("--sonic", f"leaf1=redis://127.0.0.1:{switches[0].port}", "--every", 1, "--for", 4)
    assert done.returncode == 0, done.stderr
    assert "12 ports" in done.stdout
    assert "delivery" in done.stdout


def test_what_could_not_be_read_is_not_told_as_well():
    dead = f"http://127.0.0.1:{free_port()}/metrics"
    done = look("--prometheus", dead, "--every", 1, "--for", 1)
    assert "Nothing was read." in done.stdout
    assert "unwell" not in done.stdout
    assert json.loads(look("--prometheus", dead, "--every", 1, "--for", 1, "--json").stdout)["judged"] == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "none is given"),
        (("--sonic", "leaf1"), "SWITCH=redis"),
        (("--sonic", "a=redis://x", "--sonic", "a=redis://y"), "two addresses"),
        (("--sonic", "leaf1=http://x"), "redis://HOST"),
        (("--prometheus", "ftp://x"), "http"),
        (("--host", "--every", "0"), "every"),
    ],
)
def test_what_can_not_be_is_told(options, said):
    done = look(*options)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
