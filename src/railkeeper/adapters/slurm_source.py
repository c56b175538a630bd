"""Slurm source: asks Slurm's own tools, or its REST API, for nodes and jobs; nothing is ever changed there."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

from railkeeper.adapters.records import complaint_of
from railkeeper.adapters.secret import read_secret
from railkeeper.adapters.slurm import read_jobs, read_nodes
from railkeeper.adapters.web import Access, WebClient, check_url
from railkeeper.base.errors import CapabilityError, InputError, OutsideError
from railkeeper.telemetry.jobs import Workload

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from railkeeper.telemetry.reading import Reading

# `squeue --json` says some 10 kB of each job.
MAX_ANSWER_BYTES = 256 * 2**20
# The only commands that are ever run.
NODES_JSON = ("scontrol", "show", "node", "--json")
NODES_TEXT = ("scontrol", "show", "node", "-o")
JOBS_JSON = ("squeue", "--json")


class SlurmTools:
    """A `Target` on a host with Slurm's tools: `latest` is what they said last. It gives no readings of its own."""

    def __init__(self, source: str, name: str, *, interval_s: float = 30.0, timeout_s: float = 20.0) -> None:
        self.source = source
        self.name = name
        self.interval_s = interval_s
        self.timeout_s = timeout_s
        self.complaint = ""
        self.latest: Workload | None = None
        self._nodes = NODES_JSON

    async def poll(self) -> Sequence[Reading]:
        """List nodes and jobs. Raises OutsideError with the tool's own words."""
        nodes, jobs = await self._ask_nodes(), await run_tool(JOBS_JSON)
        self.latest = await asyncio.to_thread(workload, nodes, jobs, time.time_ns(), self.name)
        self.complaint = complaint_of(self.latest)
        return ()

    async def _ask_nodes(self) -> str:
        try:
            return await run_tool(self._nodes)
        except OutsideError as error:
            # Versions before 23.02 know no JSON here, and their text says the same.
            if self._nodes == NODES_TEXT or "unrecognized option" not in str(error):
                raise
        self._nodes = NODES_TEXT
        return await run_tool(self._nodes)

    async def close(self) -> None:
        """There is nothing to let go of."""


class SlurmRest:
    """A `Target` that asks slurmrestd at `url`, as http://head:6820/slurm/v0.0.40. The token is read at each poll."""

    def __init__(
        self,
        source: str,
        name: str,
        url: str,
        web: WebClient,
        *,
        user: str = "",
        token_file: str = "",
        token_env: str = "",
        access: Access | None = None,
        interval_s: float = 30.0,
        timeout_s: float = 20.0,
    ) -> None:
        self.source = source
        self.name = name
        self.interval_s = interval_s
        self.timeout_s = timeout_s
        self.complaint = ""
        self.latest: Workload | None = None
        self._url = check_url(f"{source}: {name}", url).rstrip("/")
        self._user = user
        self._token = {"file": token_file, "env": token_env}
        self._access = access or Access()
        self._access.check(f"{source}: {name}")
        self._headers()
        self._web = web
        web.join()

    def _headers(self) -> Mapping[str, str]:
        token = read_secret(f"{self.source}: {self.name}: token", **self._token)
        named = {"X-SLURM-USER-NAME": self._user} if self._user else {}
        return {**named, "X-SLURM-USER-TOKEN": token.reveal().strip()} if token else named

    async def poll(self) -> Sequence[Reading]:
        """List nodes and jobs."""
        nodes, jobs = await self._get("nodes"), await self._get("jobs")
        self.latest = await asyncio.to_thread(workload, nodes, jobs, time.time_ns(), self._url)
        self.complaint = complaint_of(self.latest)
        return ()

    async def _get(self, what: str) -> str:
        headers = self._headers()
        answer = await self._web.get(f"{self._url}/{what}", self._access, headers=headers, max_bytes=MAX_ANSWER_BYTES)
        return answer.body.decode("utf-8", "replace")

    async def close(self) -> None:
        """Let go of the client."""
        await self._web.leave()


def workload(nodes: str, jobs: str, t_ns: int, where: str) -> Workload:
    """Read both lists. Raises OutsideError if one of them is none at all."""
    try:
        return Workload(t_ns, read_nodes(nodes, f"{where}: nodes"), read_jobs(jobs, f"{where}: jobs"))
    except InputError as error:
        raise OutsideError(str(error)) from None


async def run_tool(command: Sequence[str], max_bytes: int = MAX_ANSWER_BYTES) -> str:
    """Run a program and return what it writes; it is killed when the caller's time is up."""
    environment = {**os.environ, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
    except FileNotFoundError:
        raise CapabilityError(f"{command[0]} is not on this host; Slurm's client tools are needed") from None
    try:
        said, errors = await asyncio.gather(_read(process.stdout, max_bytes), _read(process.stderr, 65536))
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if code != 0:
        # scontrol writes some of its errors to where answers go.
        shown = " ".join((errors or said).decode("utf-8", "replace").split())[:300]
        raise OutsideError(f"{' '.join(command)}: exit {code}: {shown}", retry=True)
    return said.decode("utf-8", "replace")


async def _read(pipe: asyncio.StreamReader | None, max_bytes: int) -> bytes:
    assert pipe is not None
    parts, left = [], max_bytes
    while part := await pipe.read(2**20):
        left -= len(part)
        if left < 0:
            raise OutsideError(f"a tool wrote more than {max_bytes} bytes")
        parts.append(part)
    return b"".join(parts)
