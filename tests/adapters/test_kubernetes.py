"""Node and pod lists of Kubernetes, from files and from a server that pages them as the real API does."""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.parse
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from scraped import served

from railkeeper.adapters import kubernetes_source
from railkeeper.adapters.kubernetes import read_jobs, read_nodes
from railkeeper.adapters.kubernetes_source import Cluster, KubernetesLists, from_kubeconfig, in_cluster
from railkeeper.adapters.web import Access, WebClient
from railkeeper.base.errors import InputError, OutsideError


def node(name, ready="True", *, gpus="8", cordoned=False, taints=(), problems=()):
    conditions = [
        {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory", "message": "fine"},
        *(
            {
                "type": kind,
                "status": "True",
                "reason": "LinkDown",
                "message": "eth2",
                "lastTransitionTime": "2026-11-30T08:00:00Z",
            }
            for kind in problems
        ),
        {
            "type": "Ready",
            "status": ready,
            "reason": "KubeletNotReady",
            "message": "PLEG",
            "lastTransitionTime": "2026-11-30T08:15:00Z",
        },
    ]
    return {
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": "a"}},
        "spec": {"taints": list(taints), **({"unschedulable": True} if cordoned else {})},
        "status": {"conditions": conditions, "capacity": {"cpu": "64", "nvidia.com/gpu": gpus}},
    }


def pod(name, job="", *, phase="Running", where="n1", gpus="8", labels=None, owner=""):
    return {
        "metadata": {
            "name": name,
            "namespace": "team",
            "labels": {**({"batch.kubernetes.io/job-name": job} if job else {}), **(labels or {})},
            "ownerReferences": [{"name": owner, "controller": True}] if owner else [],
        },
        "spec": {
            "nodeName": where,
            "containers": [{"resources": {"limits": {"nvidia.com/gpu": gpus, "cpu": "8"}}}, {"resources": {}}],
        },
        "status": {"phase": phase, "startTime": "2026-11-30T08:00:00Z"},
    }


def listed(kind, items):
    return json.dumps({"kind": kind, "apiVersion": "v1", "metadata": {}, "items": items})


def test_nodes_with_conditions_and_taints():
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    for_gpus = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    hold = {"key": "railkeeper/plane", "value": "p1", "effect": "PreferNoSchedule"}
    text = listed(
        "NodeList",
        [
            node("n1", taints=[hold, for_gpus]),
            node("n2", "False"),
            node("n3", "Unknown"),
            node("n4", cordoned=True, problems=["RdmaPlaneDegraded"]),
            node("n5", taints=[taint]),
            node("n6", gpus="many"),
        ],
    )
    nodes = read_nodes(text)

    by_name = {n.name: n for n in nodes.items}
    assert [(n.name, n.state, n.schedulable) for n in nodes.items] == [
        ("n1", "idle", True), ("n2", "down", False), ("n3", "unknown", False), ("n4", "idle", False), ("n5", "idle", False),
    ]  # fmt: skip
    assert (by_name["n1"].taints, by_name["n1"].gpus) == (
        ("railkeeper/plane=p1:PreferNoSchedule", "nvidia.com/gpu=present:NoSchedule"),
        8,
    )
    assert by_name["n1"].labels == {"topology.kubernetes.io/zone": "a"}
    assert by_name["n2"].reason == "KubeletNotReady: PLEG"
    assert by_name["n4"].flags == ("cordoned", "rdma_plane_degraded")
    assert by_name["n4"].reason == "LinkDown: eth2"
    assert (nodes.seen, nodes.bad) == (6, 1)
    assert "['many']" in nodes.problems[0]


def test_pods_become_jobs():
    text = listed(
        "List",
        [
            pod("t-0", "train", where="n1"),
            pod("t-1", "train", where="n2"),
            pod("t-2", "train", where="n3", phase="Succeeded"),
            pod("s-0", "step", labels={"jobset.sigs.k8s.io/jobset-name": "whole"}, phase="Pending", where=""),
            pod("o-0", owner="replicas"),
            pod("alone", phase="Failed"),
            {"metadata": {"namespace": "team"}},
        ],
    )
    jobs = read_jobs(text)

    assert [(j.id, j.state, j.nodes, j.gpus) for j in jobs.items] == [
        ("team/train", "running", ("n1", "n2", "n3"), 16),
        ("team/whole", "pending", (), 8),
        ("team/replicas", "running", ("n1",), 8),
        ("team/alone", "failed", ("n1",), 0),
    ]
    assert jobs.items[0].said == "2 Running, 1 Succeeded"
    assert jobs.items[0].start_ns == 1796025600 * 10**9
    assert jobs.seen == 7 == len(jobs.items) + jobs.left_out + jobs.bad


@pytest.mark.parametrize("text", ["", "null", "[]", '{"kind":"PodList"}', '{"kind":"NodeList","items":{}}', "{" * 3000])
def test_what_is_no_list_is_refused(text):
    with pytest.raises(InputError):
        read_nodes(text)


class Api:
    """Lists in pages as an API server gives them; a `continue` token may expire, the token may be asked for."""

    def __init__(self, nodes, pods, *, token="", expires=0):
        self.lists = {"/api/v1/nodes": ("NodeList", nodes), "/api/v1/pods": ("PodList", pods)}
        self.token, self.expires = token, expires
        self.asked: list[str] = []

    def __call__(self, path, headers):
        self.asked.append(path)
        if self.token and headers.get("authorization") != f"Bearer {self.token}":
            return self.status(401, "Unauthorized", "Unauthorized")
        path, _, query = path.partition("?")
        asked = dict(urllib.parse.parse_qsl(query))
        kind, items = self.lists[path]
        begin = int(asked.get("continue", 0))
        if begin and self.expires > 0:
            self.expires -= 1
            return self.status(410, "Expired", "The provided continue parameter is too old")
        end = begin + int(asked["limit"])
        meta = {"resourceVersion": "7", **({"continue": str(end)} if end < len(items) else {})}
        body = {"kind": kind, "apiVersion": "v1", "metadata": meta, "items": items[begin:end]}
        return 200, {"Content-Type": "application/json"}, json.dumps(body).encode()

    @staticmethod
    def status(code, reason, message):
        body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code}
        return code, {"Content-Type": "application/json"}, json.dumps(body).encode()


def poll(cluster):
    async def whole():
        target = KubernetesLists("k8s", "main", cluster, WebClient())
        try:
            await target.poll()
        finally:
            await target.close()
        return target

    return asyncio.run(whole())


def test_lists_come_in_pages(monkeypatch, tmp_path):
    monkeypatch.setattr(kubernetes_source, "PAGE", 10)
    token = tmp_path / "token"
    token.write_text("t0p-secret\n")
    api = Api([node(f"n{k}") for k in range(35)], [pod(f"p{k}") for k in range(10)], token="t0p-secret")
    with served(api) as (address, _):
        target = poll(Cluster(f"http://{address}", Access(bearer_file=str(token))))

    assert [n.name for n in target.latest.nodes.items] == [f"n{k}" for k in range(35)]
    assert len(target.latest.jobs.items) == 10
    assert len(api.asked) == 4 + 1
    assert target.complaint == ""


def test_a_list_that_expires_is_begun_again_once(monkeypatch):
    monkeypatch.setattr(kubernetes_source, "PAGE", 10)
    nodes = [node(f"n{k}") for k in range(25)]
    with served(Api(nodes, [], expires=1)) as (address, _):
        assert len(poll(Cluster(f"http://{address}")).latest.nodes.items) == 25
    with (
        served(Api(nodes, [], expires=9)) as (address, _),
        pytest.raises(OutsideError, match="expires before it is read"),
    ):
        poll(Cluster(f"http://{address}"))


def test_the_server_is_quoted_and_the_token_is_not(tmp_path):
    token = tmp_path / "token"
    token.write_text("wr0ng")
    with served(Api([], [], token="right")) as (address, _), pytest.raises(OutsideError) as found:
        poll(Cluster(f"http://{address}", Access(bearer_file=str(token))))

    assert "HTTP 401: Unauthorized: Unauthorized" in str(found.value)
    assert "wr0ng" not in str(found.value)


def kubeconfig(path: Path, user: dict, cluster: dict | None = None) -> Path:
    data = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://10.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(data))
    return path


def test_a_kubeconfig_with_a_token(tmp_path):
    authority = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
    path = kubeconfig(tmp_path / "config", {"token": "s3cret"}, {"certificate-authority-data": authority})
    cluster = from_kubeconfig(path)

    assert cluster.url == "https://10.0.0.1:6443"
    assert cluster.access.ca_data == "-----BEGIN CERTIFICATE-----"
    assert cluster.access.headers("x") == {"Authorization": "Bearer s3cret"}
    assert "s3cret" not in repr(cluster)


@pytest.mark.parametrize(
    ("user", "told"),
    [
        ({"exec": {"command": "touch", "args": ["/tmp/x"]}}, "let in by a program, which is not run"),
        ({"client-key-data": "%%%"}, "client-key-data is no base64 text"),
        ({"token": 7}, "token: 7; a text"),
    ],
)
def test_a_kubeconfig_that_can_not_be_used(tmp_path, user, told):
    with pytest.raises(InputError, match=told):
        from_kubeconfig(kubeconfig(tmp_path / "config", user))


@pytest.mark.parametrize("text", ["", "a: [", "x", "contexts: []", "!!python/object/apply:os.system ['true']"])
def test_what_is_no_kubeconfig_is_refused(tmp_path, text):
    path = tmp_path / "config"
    path.write_text(text)

    with pytest.raises(InputError):
        from_kubeconfig(path)


def test_a_service_account(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    with pytest.raises(InputError, match="no pod of a cluster"):
        in_cluster(tmp_path)
    (tmp_path / "token").write_text("x")
    cluster = in_cluster(tmp_path)

    assert cluster.url == "https://[fd00::1]:443"
    assert cluster.access.bearer_file == str(tmp_path / "token")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "name", "labels", "spec", "status", "containers", "conditions", "type"]), inner
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(anything, max_size=4))
def test_any_json_is_read_or_told(items):
    for found in (read_nodes(listed("NodeList", items)), read_jobs(listed("PodList", items))):
        assert found.seen == len(items) == len(found.items) + found.left_out + found.bad
