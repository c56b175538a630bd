"""Scrapes of a real node_exporter through the runner."""

from __future__ import annotations

import asyncio
import base64
import gzip
import ssl
import subprocess
import time

import pytest
from real_prometheus import need, node_exporter
from scraped import served

from railkeeper.adapters.prometheus_scrape import ScrapeSettings, ScrapeTarget, Texts
from railkeeper.adapters.runner import Runner
from railkeeper.adapters.secret import Secret
from railkeeper.adapters.web import Access, Room, WebClient
from railkeeper.base.errors import InputError, OutsideError
from railkeeper.telemetry.bind import Bound, binder


def until(found, limit_s=20.0):
    """Wait for something to be true and return it."""
    deadline = time.monotonic() + limit_s
    while not (value := found()):
        assert time.monotonic() < deadline, "did not come in time"
        time.sleep(0.02)
    return value


@pytest.fixture(scope="module")
def exporter():
    with node_exporter() as address:
        yield address


def test_a_scrape_of_node_exporter_gives_readings_by_object(exporter):
    settings = ScrapeSettings(f"http://{exporter}/metrics", interval_s=0.2, timeout_s=0.2, labels={"host": "n1"})
    target = ScrapeTarget("hosts", "n1", settings, WebClient(), Texts())
    with Runner([target]) as runner:
        until(lambda: runner.statuses()[0].state == "ok")
        readings = runner.drain()
        status = runner.statuses()[0]

    lo = next(r for r in readings if r.labels.get("device") == "lo" and "node_network_mtu_bytes" in r.values)
    assert (lo.source, lo.target, lo.dialect) == ("hosts", "n1", "node_exporter")
    assert lo.labels == {"host": "n1", "device": "lo"}
    assert lo.values["node_network_mtu_bytes"] == 65536
    assert {r.dialect for r in readings} == {"node_exporter", "prometheus"}
    assert (status.failures, status.error, status.dropped) == (0, "", 0)
    assert abs(status.last_ok_ns - time.time_ns()) < 60e9
    assert runner.statuses()[0].state == "closed"


def answer(body=b"up 1\n", kind="text/plain; version=0.0.4", status=200, **headers):
    return lambda *_: (status, {"Content-Type": kind, **headers}, body)


def scrape(url, **given):
    """Poll once; return (readings, target)."""

    async def whole():
        target = ScrapeTarget("s", "t", ScrapeSettings(url, **given), WebClient(), Texts())
        try:
            return await target.poll(), target
        finally:
            await target.close()

    return asyncio.run(whole())


def test_the_dialect_is_known_by_how_names_begin():
    text = (
        b'DCGM_FI_DEV_PCIE_REPLAY_COUNTER{gpu="0",UUID="GPU-1",Hostname="n7"} 3\n'
        b'DCGM_FI_PROF_PCIE_TX_BYTES{gpu="0",UUID="GPU-1",Hostname="n7"} 1.5e9\n'
        b'nccl_bus_bandwidth_gbs{gpu="GPU0",collective="AllReduce"} 328.9\n'
    )
    with served(answer(text)) as (address, _):
        (gpu, nccl), _ = scrape(f"http://{address}/metrics")
        (other, *_), _ = scrape(f"http://{address}/metrics", labels={"host": "n9"}, dialect="site.own")

    assert (gpu.dialect, nccl.dialect, other.dialect) == ("dcgm", "prometheus", "site.own")
    assert gpu.values == {"DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 3, "DCGM_FI_PROF_PCIE_TX_BYTES": 1.5e9}
    assert gpu.labels == {"gpu": "0", "UUID": "GPU-1", "Hostname": "n7", "instance": address}
    assert other.labels["host"] == "n9"
    assert "instance" not in other.labels


def test_times_of_the_target_are_honoured():
    text = b'a{x="1"} 1 1700000000000\nb{x="1"} 2 1700000000000\nc{x="1"} 3\na{y="2"} 4\n'
    with served(answer(text)) as (address, _):
        stamped, _ = scrape(f"http://{address}/")
        ours, _ = scrape(f"http://{address}/", honor_timestamps=False)

    assert [(r.t_ns == 1700000000 * 10**9, dict(r.values)) for r in stamped] == [
        (True, {"a": 1, "b": 2}), (False, {"c": 3}), (False, {"a": 4}),
    ]  # fmt: skip
    assert [dict(r.values) for r in ours] == [{"a": 1, "b": 2, "c": 3}, {"a": 4}]
    assert len({r.t_ns for r in ours}) == 1


def test_openmetrics_is_asked_for_and_read():
    kind = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    with served(answer(b"# TYPE a counter\na_total 5\n# EOF\n", kind)) as (address, server):
        readings, target = scrape(f"http://{address}/")
    with served(answer(b"# TYPE a counter\na_total 5\n", kind)) as (address, _):
        cut, told = scrape(f"http://{address}/")

    assert server.seen[0]["accept"].startswith("application/openmetrics-text;version=1.0.0")
    assert [dict(r.values) for r in readings] == [dict(r.values) for r in cut] == [{"a_total": 5}]
    assert target.complaint == ""
    assert told.complaint == "the text may be cut: # EOF is missing"


def test_bad_lines_are_told_and_the_others_taken():
    with served(answer(b"a 1\nb{x=y} 2\nc 3\n")) as (address, _):
        readings, target = scrape(f"http://{address}/")

    assert [dict(r.values) for r in readings] == [{"a": 1, "c": 3}]
    assert target.complaint == (
        "1 of 3 lines are bad; line 2, column 5: a label's value is not quoted; labels are name=\"value\": 'b{x=y} 2'"
    )


def test_packed_answers():
    body = b"".join(b'm{k="%d"} 1\n' % k for k in range(5000))
    packed = gzip.compress(body)
    with served(answer(packed, **{"Content-Encoding": "gzip"})) as (address, server):
        readings, _ = scrape(f"http://{address}/")
    assert len(readings) == 5000
    assert server.seen[0]["accept-encoding"] == "gzip"
    for bad, told in (
        (packed[:-9], "ends within its gzip data"),
        (b"no gzip", "bad gzip data"),
        (packed + b"more", "data after the end"),
        (gzip.compress(b"#" * 3_000_000), "longer than 1000000 bytes"),
    ):
        with (
            served(answer(bad, **{"Content-Encoding": "gzip"})) as (address, _),
            pytest.raises(OutsideError, match=told),
        ):
            scrape(f"http://{address}/", max_body_bytes=1_000_000)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (answer(b"gone", status=503), r"HTTP 503 Service Unavailable: gone"),
        (answer(b"", status=302, Location="http://10.0.0.1/x"), r"HTTP 302 Found to http://10.0.0.1/x"),
        (answer(b"<html>", "text/html"), r"answers with text/html; metrics are text/plain"),
        (answer(b"\x0a", "application/vnd.google.protobuf"), r"answers with application/vnd.google.protobuf"),
        (
            answer(b"x", "application/openmetrics-text; version=2.0.0"),
            r"OpenMetrics of version 2.0.0; this reads 1.0.0",
        ),
        (answer(b"x", **{"Content-Encoding": "br"}), r"answers in br"),
        (answer(b"up one\n"), r"1 of 1 lines are bad; line 1, column 4: the value is no number"),
        (answer(b"x" * 2000), r"longer than 1000 bytes"),
        (lambda *_: None, r"ServerDisconnectedError"),
    ],
)
def test_what_is_no_answer_is_told(given, told):
    with served(given) as (address, _), pytest.raises(OutsideError, match=told):
        scrape(f"http://{address}/", max_body_bytes=1000)


def test_an_empty_text_is_no_failure():
    with served(answer(b"")) as (address, _):
        assert scrape(f"http://{address}/")[0] == []


def test_tokens_and_passwords_are_read_at_each_scrape_and_never_told(tmp_path, monkeypatch):
    secret = tmp_path / "secret"
    monkeypatch.setenv("SCRAPE_PASSWORD", "pa:ss")

    def guarded(path, asked):
        allowed = asked.get("authorization") in ("Bearer s3cret-2", "Basic " + base64.b64encode(b"me:pa:ss").decode())
        return (200, {"Content-Type": "text/plain"}, b"up 1\n") if allowed else (401, {}, b"no")

    with served(guarded) as (address, _):
        assert scrape(f"http://{address}/", access=Access(user="me", password_env="SCRAPE_PASSWORD"))[0]
        secret.write_text("s3cret-1\n")
        bearer = Access(bearer_file=str(secret))
        with pytest.raises(OutsideError, match="HTTP 401") as refused:
            scrape(f"http://{address}/", access=bearer)
        secret.write_text("s3cret-2\n")  # tokens are renewed while we run
        assert scrape(f"http://{address}/", access=bearer)[0]
    assert "s3cret" not in str(refused.value) + repr(bearer)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"url": "http://me:secret@h/"}, "the URL holds a user or a password"),
        ({"url": "ftp://h/"}, "is no URL"),
        ({"url": "http:///metrics"}, "is no URL"),
        ({"url": "http://h/", "timeout_s": 20.0}, "timeout of 20 s"),
        ({"url": "http://h/", "access": Access(user="me")}, "a user or a password is missing"),
        ({"url": "http://h/", "access": Access(bearer_env="NOT_SET_ANYWHERE")}, "NOT_SET_ANYWHERE is empty or not set"),
        ({"url": "http://h/", "access": Access(bearer_env="X", user="me")}, "a token and a user are named"),
        ({"url": "http://h/", "access": Access(cert_file="x")}, "a certificate or its key is missing"),
    ],
)
def test_settings_that_can_not_be_meant_are_refused(given, told):
    with pytest.raises(InputError, match=told) as found:
        scrape(**given)
    assert "me:secret" not in str(found.value)


def test_tls_with_an_authority_of_ones_own(tmp_path):
    need("openssl", "openssl")
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=exporter", "-addext", "subjectAltName=DNS:exporter,IP:127.0.0.1", "-out", certificate, "-keyout", key],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with served(answer(), tls=context) as (address, _):
        url = f"https://{address}/"
        assert scrape(url, access=Access(ca_file=str(certificate)))[0]
        assert scrape(url, access=Access(ca_data=certificate.read_text(), server_name="exporter"))[0]
        assert scrape(url, access=Access(verify=False))[0]
        with pytest.raises(OutsideError, match="its certificate is not trusted"):
            scrape(url)
        with pytest.raises(OutsideError, match="its certificate is not trusted"):
            scrape(url, access=Access(ca_file=str(certificate), server_name="another"))
        with pytest.raises(OutsideError, match=r"certificates \(/nowhere.pem\) can't be loaded: No such file"):
            scrape(url, access=Access(ca_file="/nowhere.pem"))


def test_a_client_certificate_given_as_text(tmp_path):
    need("openssl", "openssl")
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=both", "-addext", "subjectAltName=IP:127.0.0.1", "-out", certificate, "-keyout", key],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    texts = {"cert_data": Secret(certificate.read_text()), "key_data": Secret(key.read_text())}
    with served(answer(), tls=context) as (address, _):
        assert scrape(f"https://{address}/", access=Access(ca_file=str(certificate), **texts))[0]
        with pytest.raises(OutsideError):
            scrape(f"https://{address}/", access=Access(ca_file=str(certificate)))


def test_answers_beyond_their_share_give_way():
    room = Room(100)
    room.answers = 2

    assert room.take(90, 90)
    assert room.take(20, 20)  # over the limit, but this one is within its half
    assert not room.take(1, 91)


def test_names_of_a_real_scrape_are_bound(exporter):
    """What node_exporter says of interfaces is bound or known to be unwanted: nothing of it is strange."""
    readings, _ = scrape(f"http://{exporter}/metrics")
    names = {
        (r.dialect, name) for r in readings for name in r.values if name.startswith(("node_network_", "node_timex_"))
    }

    found = {name: binder().look(dialect, name) for dialect, name in names}
    assert None not in found.values()
    assert isinstance(found["node_network_mtu_bytes"], Bound)
    assert found["node_network_mtu_bytes"].signal.full_name == "port.mtu_bytes"
