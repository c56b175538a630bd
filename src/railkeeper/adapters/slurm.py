"""Slurm: node and job lists as its tools and its REST API write them, of versions from 22.05 on."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from railkeeper.adapters.hostlist import expand
from railkeeper.adapters.records import entries_of, field_any, field_list, field_text, load_json, read_all, whole_text
from railkeeper.base.errors import InputError
from railkeeper.telemetry.jobs import JobRecord, Listed, NodeRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# What a node's base state means; all other words are flags.
BASE_STATES = {
    "idle": "idle", "mixed": "mixed", "allocated": "allocated", "completing": "allocated", "down": "down",
    "unknown": "unknown", "error": "down", "future": "down", "planned": "idle",
}  # fmt: skip
# Signs after a state in text, as `DOWN*`.
SIGNS = {
    "*": "not_responding", "~": "powered_down", "#": "powering_up", "%": "powering_down", "$": "maint",
    "@": "reboot_requested", "^": "reboot_issued", "!": "power_down", "-": "planned", "+": "",
}  # fmt: skip
SAME_FLAG = {
    "draining": "drain",
    "drained": "drain",
    "failing": "fail",
    "maintenance": "maint",
    "no_respond": "not_responding",
}
CLOSED_FLAGS = frozenset(
    {"drain", "fail", "not_responding", "maint", "reboot_issued", "powered_down", "powering_down", "invalid_reg"}
)
JOB_STATES = {
    "pending": "pending", "configuring": "pending", "requeued": "pending", "requeue_hold": "pending",
    "requeue_fed": "pending", "special_exit": "pending", "resv_del_hold": "pending", "power_up_node": "pending",
    "running": "running", "completing": "running", "stage_out": "running", "signaling": "running",
    "resizing": "running", "expediting": "pending",
    "suspended": "suspended", "stopped": "suspended", "completed": "completed",
    "cancelled": "failed", "failed": "failed", "node_fail": "failed", "timeout": "failed", "preempted": "failed",
    "out_of_memory": "failed", "boot_fail": "failed", "deadline": "failed", "revoked": "failed",
    "launch_failed": "failed", "reconfig_fail": "failed",
}  # fmt: skip

_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z0-9_:/]*)=")
_GPU_COUNT = re.compile(r"(?:^|,)(?:gres[:/])?gpu(?::[A-Za-z][\w.-]*)?[:=](\d{1,9})(?=$|[,(])")
_GPU_SUM = re.compile(r"(?:^|,)gres/gpu=(\d{1,9})(?=$|,)")
_REASON = re.compile(r"(.*) \[([^@\[\]]*)@([^\[\]]*)\]", re.DOTALL)
_NOT_SAID = frozenset({"", "(null)", "N/A", "n/a", "Unknown", "None", "none", "None assigned", "INVALID"})


def read_nodes(text: str, where: str = "scontrol show node") -> Listed[NodeRecord]:
    """Read nodes from `scontrol show node --json`, `sinfo --json` or the REST API, or from `scontrol show node -o`.

    Raises InputError if the text is neither; entries that are bad are told in the answer.
    """
    if text.lstrip().startswith(("{", "[")):
        return read_all(entries_of(load_json(text, where), "nodes", where), _json_node, "node")
    lines = [line for line in text.split("\n") if line.strip()]
    if lines and not any(line.startswith("NodeName=") for line in lines):
        raise InputError(where, f"starts with {lines[0][:60]!r}", "the output of scontrol show node -o, or JSON")
    return read_all(lines, _text_node, "line")


def read_jobs(text: str, where: str = "squeue") -> Listed[JobRecord]:
    """Read jobs from `squeue --json` or the REST API, or from `sacct -P` with a header line.

    Steps of jobs are left out. Raises InputError if the text is neither.
    """
    if text.lstrip().startswith(("{", "[")):
        return read_all(entries_of(load_json(text, where), "jobs", where), _json_job, "job")
    head, *lines = text.split("\n")
    columns = head.split("|")
    if not {"JobID", "State", "NodeList"} <= set(columns):
        raise InputError(
            where, f"starts with {head[:60]!r}", "sacct -P with at least JobID, State and NodeList, or JSON"
        )
    return read_all((line for line in lines if line), lambda line: _sacct_job(columns, line), "line")


def _json_node(entry: Any) -> NodeRecord:
    words = _words(field_any(entry, "state")) + _words(field_any(entry, "state_flags"))
    gres = field_text(entry, "gres")
    return _node(
        field_text(entry, "name", need=True),
        words,
        reason=field_text(entry, "reason"),
        by=field_text(entry, "reason_set_by_user"),
        at_ns=_seconds_ns(field_any(entry, "reason_changed_at")),
        gpus=_gpus(gres) if "gres" in entry else None,
    )


def _text_node(line: str) -> NodeRecord:
    fields = _fields(line)
    if not fields.get("NodeName") or not fields.get("State"):
        raise InputError("node", f"{line[:60]!r}", "NodeName=… State=…")
    reason, by, at = fields.get("Reason", ""), "", ""
    if found := _REASON.fullmatch(reason):
        reason, by, at = found.groups()
    gres = _GPU_COUNT.findall(fields.get("Gres", ""))
    return _node(
        fields["NodeName"],
        _split_state(fields["State"]),
        reason=reason,
        by=by,
        at_ns=_time_ns(at),
        gpus=sum(map(int, gres)) if "Gres" in fields else None,
    )


def _fields(line: str) -> dict[str, str]:
    """Return Key=value pairs, whose values may hold blanks. Of a key that is there twice the first counts.

    Slurm writes free text (reasons, comments) last, so what is written there can't take the place of a real field.
    """
    found = list(_KEY.finditer(line))
    if not found:
        return {}
    ends = [nxt.start() for nxt in found[1:]] + [len(line)]
    fields: dict[str, str] = {}
    for match, end in zip(found, ends, strict=True):
        if match[1] == "Reason":
            end = len(line)  # noqa: PLW2901 - the reason runs to the end, whatever stands in it
        fields.setdefault(match[1], line[match.end() : end].strip())
        if match[1] == "Reason":
            break
    return fields


def _node(name: str, words: Sequence[str], *, reason: str, by: str, at_ns: int | None, gpus: int | None) -> NodeRecord:
    words = [SAME_FLAG.get(word, word) for word in words if word]
    base = next((word for word in words if word in BASE_STATES), "")
    state = BASE_STATES.get(base, "unknown")
    flags = tuple(dict.fromkeys(word for word in words if word != base))
    return NodeRecord(
        name=name,
        state=state,
        said="+".join(words).upper(),
        schedulable=state in ("idle", "mixed", "allocated") and not CLOSED_FLAGS.intersection(flags),
        flags=flags,
        reason=reason,
        reason_by=by,
        reason_ns=at_ns,
        gpus=gpus,
    )


def _words(found: Any) -> list[str]:
    """Return states in small letters: a text `MIXED+DRAIN`, or a list of words."""
    if found is None:
        return []
    if isinstance(found, str):
        return _split_state(whole_text(found, "state"))
    if isinstance(found, list) and all(isinstance(word, str) for word in found):
        return [whole_text(word, "state").lower() for word in found]
    raise InputError("state", repr(found)[:60], 'a text or a list, as ["IDLE", "DRAIN"]')


def _split_state(text: str) -> list[str]:
    words = []
    for part in text.lower().split("+"):
        word = part.rstrip("".join(SIGNS))
        words += [word, *(SIGNS[sign] for sign in part[len(word) :])]
    return [word for word in words if word]


def _json_job(entry: Any) -> JobRecord:
    array, task = _number(field_any(entry, "array_job_id")), _number(field_any(entry, "array_task_id"))
    number = _number(field_any(entry, "job_id"))
    if number is None:
        raise InputError("job_id", repr(field_any(entry, "job_id"))[:60], "a number")
    waiting = field_text(entry, "array_task_string")
    own = (
        f"{array}_{task}"
        if array and task is not None
        else f"{array}_[{waiting}]"
        if array and waiting
        else str(number)
    )
    words = _words(field_any(entry, "job_state"))
    nodes = expand(field_text(entry, "nodes"), f"nodes of job {own}")
    state = _job_state(words)
    return JobRecord(
        id=own,
        name=field_text(entry, "name"),
        user=field_text(entry, "user_name"),
        state=state,
        said="+".join(words).upper(),
        nodes=nodes,
        start_ns=_seconds_ns(field_any(entry, "start_time")) if state != "pending" else None,
        # Of a job that runs Slurm writes when it will have to end.
        end_ns=_seconds_ns(field_any(entry, "end_time")) if state in ("completed", "failed") else None,
        gpus=_job_gpus(entry, len(nodes)),
    )


def _job_state(words: Sequence[str]) -> str:
    known = [JOB_STATES[word] for word in words if word in JOB_STATES]
    return known[0] if known else "unknown"


def _job_gpus(entry: Any, nodes: int) -> int | None:
    """Return GPUs by what was given node by node, else by the sum that Slurm counts, else by what was asked for."""
    detail = field_list(entry, "gres_detail")
    if detail and all(isinstance(text, str) for text in detail):
        return sum(_gpus(text) for text in detail)
    for text in (field_text(entry, "tres_alloc_str"), field_text(entry, "tres_req_str")):
        if _GPU_COUNT.search(text):
            return _gpus(text)
    each = field_text(entry, "tres_per_node")
    count = nodes or _number(field_any(entry, "node_count"))
    return _gpus(each) * count if each and count else None


def _gpus(text: str) -> int:
    """Return the GPUs of a list as `gpu:h100:8(S:0-1),nic:4` or `cpu=64,gres/gpu=16,gres/gpu:h100=16`."""
    # Counted as TRES, all GPUs together stand beside those of each type.
    whole = _GPU_SUM.search(text)
    return int(whole[1]) if whole else sum(map(int, _GPU_COUNT.findall(text)))


def _sacct_job(columns: Sequence[str], line: str) -> JobRecord | None:
    # A job's name may hold the separator; as the last column it can't do harm.
    parts = line.split("|", len(columns) - 1) if columns[-1] == "JobName" else line.split("|")
    if len(parts) != len(columns):
        raise InputError("job", f"{len(parts)} fields, not {len(columns)}", "JobName as the last field of sacct -o")
    fields = dict(zip(columns, parts, strict=True))
    if "." in fields["JobID"]:
        return None
    if not fields["JobID"]:
        raise InputError("JobID", "is empty", "a number")
    word, _, _ = fields["State"].lower().partition(" ")  # CANCELLED by 1000
    tres = fields.get("AllocTRES", "") or fields.get("ReqTRES", "")
    nodes = "" if fields["NodeList"] in _NOT_SAID else fields["NodeList"]
    return JobRecord(
        id=fields["JobID"],
        name=fields.get("JobName", ""),
        user=fields.get("User", ""),
        state=_job_state([word]),
        said=fields["State"],
        nodes=expand(nodes, f"nodes of job {fields['JobID']}"),
        start_ns=_time_ns(fields.get("Start", "")),
        end_ns=_time_ns(fields.get("End", "")),
        gpus=_gpus(tres) if tres else None,
    )


def _number(found: Any) -> int | None:
    """Return a number, which newer versions wrap as {"set": true, "infinite": false, "number": 5}."""
    if isinstance(found, dict):
        found = found.get("number") if found.get("set") and not found.get("infinite") else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _seconds_ns(found: Any) -> int | None:
    seconds = _number(found)
    return seconds * 10**9 if seconds and 0 < seconds < 2**33 else None


def _time_ns(text: str) -> int | None:
    """Return a time of Slurm's text as unix ns: seconds (SLURM_TIME_FORMAT=%s), or this machine's local time."""
    if text in _NOT_SAID:
        return None
    if text.isdecimal() and text.isascii():
        return _seconds_ns(int(text[:12]))
    try:
        return int(datetime.fromisoformat(text).timestamp()) * 10**9
    except (ValueError, OverflowError, OSError):
        raise InputError("time", repr(text[:40]), "2026-11-30T08:15:00, or seconds since 1970") from None


def job_columns() -> Mapping[str, str]:
    """Return the fields to ask sacct for, by what they are for; JobName comes last."""
    return {
        "JobID": "id", "User": "user", "State": "state", "Start": "start", "End": "end", "AllocTRES": "GPUs",
        "NodeList": "nodes", "JobName": "name",
    }  # fmt: skip
