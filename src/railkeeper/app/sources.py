"""Sources of the settings as targets and streams: the one place that knows all adapters of telemetry."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from railkeeper.adapters.gnmi import GnmiSettings, GnmiStream, GnmiSubscription
from railkeeper.adapters.hostread import HostTarget
from railkeeper.adapters.infiniband import InfinibandSettings, InfinibandTarget
from railkeeper.adapters.kubernetes_source import KubernetesLists, from_kubeconfig, in_cluster
from railkeeper.adapters.prometheus_api import PrometheusApi
from railkeeper.adapters.prometheus_query import QuerySettings, QueryTarget
from railkeeper.adapters.prometheus_scrape import ScrapeSettings, ScrapeTarget, Texts
from railkeeper.adapters.secret import read_secret
from railkeeper.adapters.slurm_source import SlurmRest, SlurmTools
from railkeeper.adapters.sonic_redis import SonicSettings, SonicTarget
from railkeeper.adapters.sonic_redis_link import read_address
from railkeeper.adapters.web import Access, WebClient
from railkeeper.app.settings_sources import (
    OPENCONFIG_PATHS,
    GnmiSource,
    HostSource,
    InfinibandSource,
    KubernetesSource,
    PrometheusQuerySource,
    PrometheusSource,
    SlurmSource,
    SonicSource,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railkeeper.app.settings_sources import AnySource
    from railkeeper.telemetry.jobs import Workload
    from railkeeper.telemetry.reading import Stream, Target

_TLS = ("ca_file", "cert_file", "key_file", "server_name", "verify")
_WEB = (*_TLS, "user", "password_file", "password_env",
        "bearer_file", "bearer_env")  # fmt: skip


class JobLister(Protocol):
    """A target that lists nodes and jobs instead of giving readings."""

    latest: Workload | None


@dataclass
class Sources:
    """What was made of all sources: targets to ask, streams to follow, and those targets that list jobs."""

    targets: list[Target] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    listers: list[JobLister] = field(default_factory=list)
    web: WebClient = field(default_factory=WebClient)
    _texts: Texts | None = None

    def texts(self) -> Texts:
        """Return the readers of metrics text that all share; made when first needed, for kernels are compiled then."""
        self._texts = self._texts or Texts()
        return self._texts


def make_sources(settings: Iterable[AnySource]) -> Sources:
    """Return what the settings ask for; raises InputError for what can't be (files, addresses, secrets)."""
    made = Sources()
    for source in settings:
        _add(source, made)
    return made


@singledispatch
def _add(source: Any, _made: Sources) -> None:
    raise TypeError(f"no source is made of {type(source).__name__}")


def _access(source: Any) -> Access:
    return Access(**{name: getattr(source, name) for name in _WEB})


@_add.register
def _(source: PrometheusSource, made: Sources) -> None:
    for url in source.targets:
        settings = ScrapeSettings(
            url, source.interval_s, source.timeout_s, source.labels, source.dialect, tuple(source.keep),
            honor_timestamps=source.honor_timestamps, max_body_bytes=source.max_body_bytes, access=_access(source),
        )  # fmt: skip
        made.targets.append(ScrapeTarget(source.name, url, settings, made.web, made.texts()))


@_add.register
def _(source: PrometheusQuerySource, made: Sources) -> None:
    settings = QuerySettings(
        source.url, tuple(source.selectors), source.interval_s, source.timeout_s, source.latest_s, source.labels,
        source.dialect, _access(source),
    )  # fmt: skip
    api = PrometheusApi(made.web, source.url, settings.access)
    made.targets.append(QueryTarget(source.name, source.url, settings, api))


@_add.register
def _(source: SonicSource, made: Sources) -> None:
    password = read_secret(f"source {source.name}: password", file=source.password_file, env=source.password_env)
    for switch, address in source.targets.items():
        settings = SonicSettings(
            source.name, switch, read_address(f"source {source.name}: {switch}", address), username=source.username,
            password=password, interval_s=source.interval_s, timeout_s=source.timeout_s,
            queue_every_s=source.queue_every_s, watermark_every_s=source.watermark_every_s, rates=source.rates,
        )  # fmt: skip
        made.targets.append(SonicTarget(settings))


@_add.register
def _(source: GnmiSource, made: Sources) -> None:
    password = read_secret(f"source {source.name}: password", file=source.password_file, env=source.password_env)
    usual = tuple(GnmiSubscription(path, mode, source.interval_s) for path, mode in OPENCONFIG_PATHS)
    paths = usual if source.paths is None else tuple(GnmiSubscription(**p.model_dump()) for p in source.paths)
    same = ("tls", "ca_file", "cert_file", "key_file", "server_name", "username", "database", "origin", "encoding")
    for switch, address in source.targets.items():
        settings = GnmiSettings(
            source.name, switch, address, paths, password=password, **{name: getattr(source, name) for name in same}
        )
        made.streams.append(GnmiStream(settings))


@_add.register
def _(source: HostSource, made: Sources) -> None:
    made.targets.append(
        HostTarget(source=source.name, root=source.root, host=source.host, interval_s=source.interval_s)
    )


@_add.register
def _(source: InfinibandSource, made: Sources) -> None:
    settings = InfinibandSettings(
        source.name, source.subnet, source.ca, source.ca_port, source.interval_s, source.timeout_s, source.traffic
    )
    made.targets.append(InfinibandTarget(settings))


@_add.register
def _(source: SlurmSource, made: Sources) -> None:
    lister: SlurmRest | SlurmTools
    times = {"interval_s": source.interval_s, "timeout_s": source.timeout_s}
    if source.url:
        lister = SlurmRest(
            source.name, source.url, source.url, made.web, user=source.user, token_file=source.token_file,
            token_env=source.token_env, access=Access(**{name: getattr(source, name) for name in _TLS}), **times,
        )  # fmt: skip
    else:
        lister = SlurmTools(source.name, "slurm", **times)
    made.targets.append(lister)
    made.listers.append(lister)


@_add.register
def _(source: KubernetesSource, made: Sources) -> None:
    cluster = from_kubeconfig(Path(source.kubeconfig), source.context) if source.kubeconfig else in_cluster()
    lister = KubernetesLists(
        source.name, cluster.url, cluster, made.web, namespaces=tuple(source.namespaces), labels=source.labels,
        interval_s=source.interval_s, timeout_s=source.timeout_s,
    )  # fmt: skip
    made.targets.append(lister)
    made.listers.append(lister)
