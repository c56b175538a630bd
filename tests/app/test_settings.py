"""Settings files: what is wrong in one is said with file, key, and what would be right."""

from __future__ import annotations

import pytest

from railkeeper.app.settings import Settings, check_endpoint, read_settings
from railkeeper.base.errors import InputError
from railkeeper.health.fault import LocatorConfig
from railkeeper.respond.guardrails import Limits


def read(tmp_path, text):
    path = tmp_path / "keeper.toml"
    path.write_text(text)
    return read_settings(path)


BAD = [
    ("keeper = 5", "keeper", "a table"),
    ('[telemetry]\nmetrics = "x"', "telemetry.metrics", "an address and a port"),
    ("[telemetry]\nframe_s = 0.1", "telemetry.frame_s", "greater than or equal to 0.5"),
    ("[sli]\nfoo = 1", "sli.foo", "known keys: bandwidth_share"),
    ('[[slo]]\nname = "x"\nobjective = 0.9', "slo.0.sli", "give it"),
    ('[[slo]]\nname = "x"\nsli = "speed"\nobjective = 0.9', "slo.0.sli", "one of packet-loss"),
    ('[[slo]]\nname = "x"\nsli = "bandwidth"\nobjective = 1.5', "slo.0.objective", "less than 1"),
    ("[detectors.foo]\na = 1", "detectors.foo", "one of"),
    ("[detectors.link-flap]\nfoo = 1", "detectors.link-flap.foo", "one of"),
    ("[detectors]\nlink-flap = 3", "detectors.link-flap", "a table"),
    ("[detectors.link-flap]\nfalls = nan", "detectors.link-flap.falls", "at least 0"),
    ("[detectors.link-flap]\nfalls = -1", "detectors.link-flap.falls", "at least 0"),
    ('[[source]]\nname = "a"', "source.0.kind", "one of prometheus"),
    ('[[source]]\nkind = "foo"\nname = "a"', "source.0.kind", "one of prometheus"),
    ('[[source]]\nkind = "host"\nname = "a"\nroute = "/"', "source.0.host.route", "known keys: host, interval_s, kind"),
    ('[[source]]\nkind = "prometheus"\nname = "a"\ntargts = ["x"]', "source.0.prometheus.targts", "targets"),
    ('[[source]]\nkind = "prometheus"\nname = "a"\ntargets = []', "source.0.prometheus.targets", "at least one"),
    (
        '[[source]]\nkind = "gnmi"\nname = "a"\ntargets = { a = "b:1" }\npaths = [{ pth = "/" }]',
        "source.0.gnmi.paths.0.pth",
        "heartbeat_s",
    ),
    (
        '[[slo]]\nname = "x"\nsli = "delivery"\nobjective = 0.9\nalerts = [{ brn = 1 }]',
        "slo.0.alerts.0.brn",
        "burn, long_s",
    ),
    (
        '[[slo]]\nname = "x"\nsli = "delivery"\nobjective = 0.9\nalerts = [{ burn = 1, long_s = 60, short_s = 300 }]',
        "slo.0.alerts.0",
        "short_s at most long_s",
    ),
    ('[slo]\nname = "x"', "slo", "a list"),
    ("limits = 5", "limits", "a table"),
    ("locator = []", "locator", "a table"),
    ("colour = 1", "colour", "known keys: detectors, keeper, limits, locator"),
    ("[keper]\ntick_s = 1", "keper", "known keys: detectors, keeper, limits, locator"),
    (
        "[keeper]\ntik_s = 1",
        "keeper.tik_s",
        "known keys: fabric, history_days, history_gb, journal, listen, state, tick_s",
    ),
    ("[keeper]\ntick_s = 'fast'", "keeper.tick_s", "number"),
    ("[keeper]\ntick_s = '0.5'", "keeper.tick_s", "number"),
    ("[keeper]\ntick_s = true", "keeper.tick_s", "number"),
    ("[keeper]\ntick_s = 0.01", "keeper.tick_s", "0.1"),
    ("[keeper]\ntick_s = 61", "keeper.tick_s", "60"),
    ("[keeper]\ntick_s = nan", "keeper.tick_s", "60"),
    ("[keeper]\nhistory_days = 0", "keeper.history_days", "greater than 0"),
    ("[keeper]\nhistory_days = inf", "keeper.history_days", "3650"),
    ("[keeper]\nhistory_gb = 0", "keeper.history_gb", "greater than 0"),
    ("[keeper]\nfabric = 7", "keeper.fabric", "string"),
    ("[keeper]\nstate = ''", "keeper.state", "not empty"),
    ("[keeper]\nstate = ['a']", "keeper.state", "string"),
    ("[keeper]\nlisten = 'localhost'", "keeper.listen", "tcp://ADDRESS:PORT"),
    ("[keeper]\nlisten = 'tcp://*'", "keeper.listen", "tcp://ADDRESS:PORT"),
    ("[keeper]\nlisten = 'tcp://*:0'", "keeper.listen", "tcp://ADDRESS:PORT"),
    ("[keeper]\nlisten = 'tcp://*:77777'", "keeper.listen", "tcp://ADDRESS:PORT"),
    ("[keeper]\nlisten = 'udp://*:7400'", "keeper.listen", "tcp://ADDRESS:PORT"),
    ("[keeper]\nlisten = 'ipc://'", "keeper.listen", "ipc://PATH"),
    (f"[keeper]\nlisten = 'ipc:///{'x' * 120}'", "keeper.listen", "107 bytes"),
    ("[locator]\nspeed = 1", "locator.speed", "known keys: background_loss"),
    ("[locator]\ntick_s = 1", "locator.tick_s", "keeper.tick_s"),
    ("[locator]\nfalse_alarms_per_day = 0", "locator.false_alarms_per_day", "1e-09 to 10000"),
    ("[locator]\nfalse_alarms_per_day = 'few'", "locator.false_alarms_per_day", "a number"),
    ("[locator]\nfalse_alarms_per_day = nan", "locator.false_alarms_per_day", "a number"),
    ("[locator]\nslow_fraction = 1.5", "locator.slow_fraction", "0.01 to 1"),
    ("[locator]\nnominal_bps = -1", "locator.nominal_bps", "1000 to"),
    ("[locator]\nbackground_loss = 0.9", "locator.background_loss", "0 to 0.5"),
    ("[locator]\nsilent_ticks = 0", "locator.silent_ticks", "1 to"),
    ("[locator]\nsilent_ticks = 2.5", "locator.silent_ticks", "a whole number"),
    ("[locator]\nhold_s = -1", "locator.hold_s", "at least 0"),
    ("[locator]\ncommon_clock = 1", "locator.common_clock", "true or false"),
    ("[limits]\nshare = 1", "limits.share", "known keys: cooldown_s"),
    ("[limits]\ndry_run = 'no'", "limits.dry_run", "true or false"),
    ("[limits]\ndry_run = 0", "limits.dry_run", "true or false"),
    ("[limits]\nmin_plane_share = 1.5", "limits.min_plane_share", "a share from 0 to 1"),
    ("[limits]\nmin_plane_share = true", "limits.min_plane_share", "a number"),
    ("[limits]\nmax_in_force = 2.5", "limits.max_in_force", "a whole number"),
    ("[limits]\nmax_in_force = -1", "limits.max_in_force", "at least 0"),
    ("[limits]\nhold_s = inf", "limits.hold_s", "a number"),
    ("[limits]\nretry_s = -5", "limits.retry_s", "at least 0"),
    ("[limits]\nfrozen = 5", "limits.frozen", "[from, to]"),
    ("[limits]\nfrozen = [5]", "limits.frozen", "[from, to]"),
    ("[limits]\nfrozen = [[5]]", "limits.frozen", "[from, to]"),
    ("[limits]\nfrozen = [[7, 5]]", "limits.frozen", "[from, to]"),
    ("[limits]\nfrozen = [['a', 'b']]", "limits.frozen", "[from, to]"),
    ("[limits]\nfrozen = [[1, nan]]", "limits.frozen", "[from, to]"),
]


@pytest.mark.parametrize(("text", "key", "right"), BAD, ids=[b[0].replace("\n", " ") for b in BAD])
def test_bad_settings_name_file_key_and_what_would_be_right(tmp_path, text, key, right):
    with pytest.raises(InputError) as e:
        read(tmp_path, text)

    assert e.value.where == f"{tmp_path / 'keeper.toml'}: {key}"
    assert right in str(e.value)
    assert "\n" not in str(e.value)
    assert "Settings" not in str(e.value)


def test_a_password_is_not_shown_wherever_it_was_put(tmp_path):
    with pytest.raises(InputError, match="journal: is no text") as e:
        read(tmp_path, "[keeper]\njournal = ['postgresql://u:secret@h/d']")

    assert "secret" not in str(e.value)


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"[keeper", b"a = ", b"[keeper]\n[keeper]", b"a = " + b"[" * 5000, b"\0"]
)
def test_what_is_no_toml_is_said(tmp_path, content):
    path = tmp_path / "keeper.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match="is not TOML") as e:
        read_settings(path)
    assert e.value.where == str(path)


def test_a_file_that_can_not_be_read_is_said(tmp_path):
    for path in (tmp_path, tmp_path / "missing.toml"):
        with pytest.raises(InputError, match="can't be read"):
            read_settings(path)


def test_no_file_and_an_empty_file_give_the_defaults(tmp_path):
    empty = read(tmp_path, "")

    assert empty == read_settings(None) == Settings()
    assert empty.locator_config("x") == LocatorConfig()
    assert empty.limits_config("x", dry_run=True) == Limits()


@pytest.mark.parametrize("kind", ["", 'kind = "foo"', 'kind = "host"'])
def test_a_secret_in_the_wrong_place_is_not_printed(tmp_path, kind):
    with pytest.raises(InputError) as e:
        read(tmp_path, f'[[source]]\n{kind}\nname = "a"\npassword = "hunter2"')
    assert "hunter2" not in str(e.value)


def test_everything_can_be_set(tmp_path):
    s = read(tmp_path, """
        [keeper]
        fabric = "f.toml"
        state = "there"
        journal = "postgresql://db/x"
        listen = "tcp://[::1]:7400"
        tick_s = 1
        history_days = 0.5
        history_gb = 2
        [locator]
        false_alarms_per_day = 1
        silent_ticks = 6
        common_clock = false
        [limits]
        max_in_force = 3
        hold_s = 20
        frozen = [[10, 20.5], [30, 40]]
    """)  # fmt: skip

    assert s.locator_config("x") == LocatorConfig(
        tick_s=1.0, false_alarms_per_day=1.0, silent_ticks=6, common_clock=False
    )
    limits = s.limits_config("x", dry_run=False)
    assert limits == Limits(dry_run=False, max_in_force=3, hold_s=20.0, frozen=((10.0, 20.5), (30.0, 40.0)))
    assert s.journal_url(tmp_path) == "postgresql://db/x"


@pytest.mark.parametrize(
    ("text", "world", "wanted", "dry"),
    [
        ("", True, None, True),
        ("", False, None, False),
        ("[limits]\ndry_run = false", True, None, False),
        ("[limits]\ndry_run = true", False, None, True),
        ("[limits]\ndry_run = false", True, True, True),
        ("[limits]\ndry_run = true", True, False, False),
        ("", True, False, False),
    ],
)
def test_dry_run_the_command_line_before_the_file_before_the_world(tmp_path, text, world, wanted, dry):
    assert read(tmp_path, text).limits_config("x", dry_run=world, wanted=wanted).dry_run is dry


def test_the_journal_is_in_the_state_folder(tmp_path):
    assert Settings().journal_url(tmp_path) == f"sqlite:///{tmp_path}/journal.db"


@pytest.mark.parametrize(
    "good",
    [
        "tcp://*:7400",
        "tcp://10.0.0.1:1",
        "tcp://keeper.example:65535",
        "tcp://[fe80::1%eth0]:9",
        "ipc:///run/x",
        "ipc://x",
    ],
)
def test_endpoints(good):
    check_endpoint(good)
