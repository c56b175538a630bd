"""Kubernetes source: lists nodes and pods of an API server, page by page; nothing is ever changed there."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from railkeeper.adapters.kubernetes import jobs_of, nodes_of
from railkeeper.adapters.records import complaint_of, entries_of, field_any, field_list, field_text
from railkeeper.adapters.secret import Secret
from railkeeper.adapters.web import Access, Answer, WebClient, check_url
from railkeeper.base.errors import InputError, OutsideError
from railkeeper.telemetry.jobs import Workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railkeeper.telemetry.reading import Reading

PAGE = 500
MAX_PAGES = 2000
MAX_PAGE_BYTES = 64 * 2**20
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
LARGE_BYTES = 256 * 1024


@dataclass(frozen=True)
class Cluster:
    """Where an API server is, and how it lets us in."""

    url: str
    access: Access = field(default_factory=Access)


def in_cluster(account: Path = ACCOUNT) -> Cluster:
    """Return the cluster in whose pod this runs, by its service account. Raises InputError elsewhere."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (account / "token").is_file():
        raise InputError("kubernetes", "this is no pod of a cluster", "name a kubeconfig")
    name = f"[{host}]" if ":" in host else host
    return Cluster(
        f"https://{name}:{port}", Access(ca_file=str(account / "ca.crt"), bearer_file=str(account / "token"))
    )


def from_kubeconfig(path: Path, context: str = "") -> Cluster:
    """Return the cluster of a kubeconfig's context, its current one without a name.

    Programs that a kubeconfig names (`exec`) are not run: a service account's token, a token file or a client
    certificate is needed. Raises InputError that names the file.
    """
    where = str(path)
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        # A YAML error quotes what it could not read, and that may be a secret.
        raise InputError(where, f"can't be read ({type(error).__name__})", "a kubeconfig") from None
    chosen = context or field_text(data, "current-context")
    at = _named(data, "contexts", chosen, "context", where)
    cluster = _named(data, "clusters", field_text(at, "cluster"), "cluster", where)
    user = _named(data, "users", field_text(at, "user"), "user", where) if field_any(at, "user") else {}
    return Cluster(check_url(where, field_text(cluster, "server", need=True)).rstrip("/"), _access(cluster, user, path))


def _named(data: Any, key: str, name: str, inner: str, where: str) -> dict[str, Any]:
    for entry in entries_of(data, key, where):
        if field_any(entry, "name") == name and isinstance(field_any(entry, inner), dict):
            found: dict[str, Any] = entry[inner]
            return found
    raise InputError(where, f"no {inner} {name!r} in {key}", "a name that is there")


def _access(cluster: dict[str, Any], user: dict[str, Any], path: Path) -> Access:
    if "exec" in user or "auth-provider" in user:
        raise InputError(str(path), "its user is let in by a program, which is not run", "a token or a certificate")
    token = field_text(user, "token")
    return Access(
        ca_file=_file(cluster, "certificate-authority", path),
        ca_data=_decoded(cluster, "certificate-authority-data", path),
        verify=field_any(cluster, "insecure-skip-tls-verify") is not True,
        server_name=field_text(cluster, "tls-server-name"),
        cert_file=_file(user, "client-certificate", path),
        key_file=_file(user, "client-key", path),
        cert_data=Secret(_decoded(user, "client-certificate-data", path)),
        key_data=Secret(_decoded(user, "client-key-data", path)),
        bearer_file=_file(user, "tokenFile", path),
        bearer=Secret("" if field_any(user, "tokenFile") else token),
    )


def _file(entry: dict[str, Any], key: str, path: Path) -> str:
    named = field_text(entry, key)
    return str(path.parent / named) if named else ""


def _decoded(entry: dict[str, Any], key: str, path: Path) -> str:
    try:
        return base64.b64decode(field_text(entry, key), validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        raise InputError(str(path), f"{key} is no base64 text", "the PEM text in base64") from None


class KubernetesLists:
    """A `Target` of one API server: `latest` is what it listed last. It gives no readings of its own.

    - namespaces: of the pods that are listed; all without
    - labels: only pods with these, as `kueue.x-k8s.io/queue-name`, in the API's own words
    """

    def __init__(
        self,
        source: str,
        name: str,
        cluster: Cluster,
        web: WebClient,
        *,
        namespaces: tuple[str, ...] = (),
        labels: str = "",
        interval_s: float = 30.0,
        timeout_s: float = 20.0,
    ) -> None:
        cluster.access.check(f"{source}: {name}")
        self.source = source
        self.name = name
        self.interval_s = interval_s
        self.timeout_s = timeout_s
        self.complaint = ""
        self.latest: Workload | None = None
        self._cluster = cluster
        self._web = web
        self._pods = [f"/api/v1/namespaces/{space}/pods" for space in namespaces] or ["/api/v1/pods"]
        self._labels = labels
        web.join()

    async def poll(self) -> Sequence[Reading]:
        """List nodes and pods. Raises OutsideError with the server's own words."""
        nodes = await self._list("/api/v1/nodes")
        pods = [pod for path in self._pods for pod in await self._list(path, self._labels)]
        now_ns = time.time_ns()
        self.latest = await asyncio.to_thread(lambda: Workload(now_ns, nodes_of(nodes), jobs_of(pods)))
        self.complaint = complaint_of(self.latest)
        return ()

    async def _list(self, path: str, labels: str = "") -> list[Any]:
        """Return all entries of a list. One whose pages have expired on the way is begun again, once."""
        for attempt in (1, 2):
            items: list[Any] = []
            following = ""
            for _ in range(MAX_PAGES):
                page = await self._page(path, labels, following)
                if page is None and attempt == 1:
                    break
                if page is None:
                    raise OutsideError(f"{self._cluster.url}{path}: the list expires before it is read", retry=True)
                items += field_list(page, "items")
                following = field_text(page, "metadata", "continue")
                if not following:
                    return items
            else:
                raise OutsideError(f"{self._cluster.url}{path}: more than {MAX_PAGES} pages")
        raise AssertionError("not reached")

    async def _page(self, path: str, labels: str, following: str) -> Any:
        url = self._cluster.url + path
        params = [("limit", str(PAGE))]
        params += [("labelSelector", labels)] if labels else []
        params += [("continue", following)] if following else []
        answer = await self._web.get(
            url, self._cluster.access, params=params, max_bytes=MAX_PAGE_BYTES, any_status=True
        )
        if answer.status == 410 and following:
            return None
        data = await _json(answer, url)
        if answer.status != 200:
            said = f"{field_any(data, 'reason')}: {field_any(data, 'message')}" if isinstance(data, dict) else ""
            raise OutsideError(f"{url}: HTTP {answer.status}: {said[:300]}", retry=answer.status >= 429)
        if not isinstance(data, dict) or not isinstance(data.get("items", []), list):
            raise OutsideError(f"{url}: answers with no list")
        return data

    async def close(self) -> None:
        """Let go of the client."""
        await self._web.leave()


async def _json(answer: Answer, url: str) -> Any:
    try:
        if len(answer.body) < LARGE_BYTES:
            return json.loads(answer.body)
        return await asyncio.to_thread(json.loads, answer.body)
    except (ValueError, RecursionError):
        raise OutsideError(f"{url}: HTTP {answer.status}, and no JSON") from None
