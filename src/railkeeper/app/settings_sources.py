"""The tables `[[source]]` of the settings file: one source each, of one of these kinds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from railkeeper.base.errors import InputError

_STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)
_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"
Seconds = Annotated[float, Field(ge=0.05, le=86_400)]

# What a switch is asked for where nothing else is said: states as they change, counters at an interval.
OPENCONFIG_PATHS = (
    ("/interfaces/interface[name=*]/state/oper-status", "on_change"),
    ("/interfaces/interface[name=*]/state/admin-status", "on_change"),
    ("/lldp/interfaces/interface[name=*]/neighbors", "on_change"),
    ("/interfaces/interface[name=*]/state/counters", "sample"),
    ("/interfaces/interface[name=*]/ethernet/state", "sample"),
    ("/qos/interfaces/interface[interface-id=*]/output/queues/queue[name=*]/state", "sample"),
    ("/components/component[name=*]/transceiver", "sample"),
)


class _Source(BaseModel):
    """What every source has.

    - name: of the source, in reports and metrics
    - interval_s, timeout_s: how often it is asked, and how long it may take
    """

    model_config = _STRICT

    name: str = Field(pattern=_NAME)
    interval_s: Seconds = 15.0
    timeout_s: Seconds = 5.0


class _Web(_Source):
    """What every source over HTTP has; files and variables are named here, never secrets."""

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""
    verify: bool = True
    user: str = ""
    password_file: str = ""
    password_env: str = ""
    bearer_file: str = ""
    bearer_env: str = ""


class PrometheusSource(_Web):
    """Exporters that are scraped: URLs of their metrics."""

    kind: Literal["prometheus"]
    targets: list[str] = Field(min_length=1)
    labels: dict[str, str] = {}
    dialect: str = ""
    honor_timestamps: bool = True
    keep: list[str] = []
    max_body_bytes: int = Field(default=8 * 2**20, ge=1024, le=2**30)


class PrometheusQuerySource(_Web):
    """A Prometheus server that is asked for what it has stored."""

    kind: Literal["prometheus-query"]
    url: str
    selectors: list[str] = Field(min_length=1)
    latest_s: Seconds = 120.0
    labels: dict[str, str] = {}
    dialect: str = ""


class SonicSource(_Source):
    """SONiC switches by their Redis: name of the switch -> `redis://HOST[:PORT]` or `unix:///PATH`."""

    kind: Literal["sonic"]
    targets: dict[str, str] = Field(min_length=1)
    interval_s: Seconds = 10.0
    queue_every_s: Seconds = 10.0
    watermark_every_s: Seconds = 60.0
    rates: bool = False
    username: str = ""
    password_file: str = ""
    password_env: str = ""


class GnmiPath(BaseModel):
    """One path that is subscribed to."""

    model_config = _STRICT

    path: str
    mode: Literal["sample", "on_change", "target_defined"] = "sample"
    sample_s: Seconds = 10.0
    heartbeat_s: float = Field(default=0.0, ge=0, le=86_400)
    suppress_redundant: bool = False


class GnmiSource(_Source):
    """Switches by gNMI: name of the switch -> HOST:PORT. Without `paths` OpenConfig's usual ones."""

    kind: Literal["gnmi"]
    targets: dict[str, str] = Field(min_length=1)
    paths: list[GnmiPath] | None = None
    tls: bool = True
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""
    username: str = ""
    password_file: str = ""
    password_env: str = ""
    database: str = ""
    origin: str = ""
    encoding: Literal["json", "json_ietf", "proto"] = "json_ietf"


class HostSource(_Source):
    """The host on which the keeper runs; `root` may be a captured tree."""

    kind: Literal["host"]
    root: str = "/"
    host: str = ""
    interval_s: Seconds = 5.0


class InfinibandSource(_Source):
    """An InfiniBand subnet, asked from a port of this host."""

    kind: Literal["infiniband"]
    subnet: str
    ca: str = ""
    ca_port: int = Field(default=0, ge=0, le=255)
    interval_s: Seconds = 30.0
    timeout_s: Seconds = 20.0
    traffic: bool = True


class SlurmSource(_Source):
    """Slurm: nodes and jobs, by its tools on this host, or by its REST API at `url`."""

    kind: Literal["slurm"]
    url: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""
    verify: bool = True
    user: str = ""
    token_file: str = ""
    token_env: str = ""
    interval_s: Seconds = 30.0
    timeout_s: Seconds = 20.0


class KubernetesSource(_Source):
    """Kubernetes: nodes and pods, by a kubeconfig, or from within a pod."""

    kind: Literal["kubernetes"]
    kubeconfig: str = ""
    context: str = ""
    namespaces: list[str] = []
    labels: str = ""
    interval_s: Seconds = 30.0
    timeout_s: Seconds = 20.0


AnySource = Annotated[
    PrometheusSource
    | PrometheusQuerySource
    | SonicSource
    | GnmiSource
    | HostSource
    | InfinibandSource
    | SlurmSource
    | KubernetesSource,
    Field(discriminator="kind"),
]
KINDS = (
    "prometheus", "prometheus-query", "sonic", "gnmi", "host", "infiniband", "slurm", "kubernetes",
)  # fmt: skip


def check_sources(sources: list[AnySource], where: str) -> None:
    """Raise InputError for sources that can't be told apart, or that can't be asked in time."""
    names = [s.name for s in sources]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise InputError(f"{where}: source.name", f"{twice[0]!r} is there twice", "give each source a name of its own")
    for s in sources:
        if s.timeout_s > s.interval_s:
            right = f"at most its interval of {s.interval_s:g} s"
            raise InputError(f"{where}: source {s.name}: timeout_s", f"is {s.timeout_s:g}", right)
