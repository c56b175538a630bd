"""A gNMI target for tests: a process of its own, over TLS, with an account; its tree is changed through its stdin.

It has its own reading of paths and of Subscribe, so that a mistake of ours is not made twice. Lines of JSON on stdin:
{"set": {PATH: VALUE, ...}}, {"delete": PATH}, {"silence": true}. VALUE is a number, a text or a boolean; {"json": X},
{"json_ietf": X}, {"float": X}, {"decimal": [DIGITS, PRECISION]}, {"list": [...]}, {"bytes": HEX}.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import threading
import time
from pathlib import Path

import grpc
from gnmi_pb import gnmi_pb2 as pb


def parse(text: str) -> list[tuple[str, dict[str, str]]]:
    out = []
    for name, keys in re.findall(r"/([^\[/]+)((?:\[[^\]]*\])*)", text):
        out.append((name, dict(re.findall(r"\[([^=\]]+)=([^\]]*)\]", keys))))
    return out


def to_wire(steps) -> pb.Path:
    return pb.Path(elem=[pb.PathElem(name=name, key=keys) for name, keys in steps])


def from_wire(path: pb.Path):
    return [(elem.name, dict(elem.key)) for elem in path.elem]


def below(steps, pattern) -> bool:
    if len(steps) < len(pattern):
        return False
    for (name, keys), (want, wanted_keys) in zip(steps, pattern, strict=False):
        if want.endswith("*"):
            if not name.startswith(want[:-1]):
                return False
        elif name != want:
            return False
        if any(v not in ("*", keys.get(k)) for k, v in wanted_keys.items()):
            return False
    return True


def typed(value) -> pb.TypedValue:
    if isinstance(value, dict):
        ((kind, x),) = value.items()
        if kind in {"json", "json_ietf"}:
            return pb.TypedValue(**{f"{kind}_val": json.dumps(x).encode()})
        if kind == "float":
            return pb.TypedValue(double_val=x)
        if kind == "decimal":
            return pb.TypedValue(decimal_val=pb.Decimal64(digits=x[0], precision=x[1]))
        if kind == "list":
            return pb.TypedValue(leaflist_val=pb.ScalarArray(element=[typed(one) for one in x]))
        return pb.TypedValue(bytes_val=bytes.fromhex(x))
    if isinstance(value, bool):
        return pb.TypedValue(bool_val=value)
    if isinstance(value, int):
        return pb.TypedValue(uint_val=value) if value >= 0 else pb.TypedValue(int_val=value)
    return pb.TypedValue(string_val=value)


class Target:
    def __init__(self, options) -> None:
        self.options = options
        self.tree: dict[str, object] = {}
        self.listeners: set[asyncio.Queue] = set()
        self.silent = False

    def change(self, command) -> None:
        self.silent = command.get("silence", self.silent)
        for path, value in command.get("set", {}).items():
            self.tree[path] = value
            self._tell((path, False))
        if "delete" in command:
            pattern = parse(command["delete"])
            for path in [p for p in self.tree if below(parse(p), pattern)]:
                del self.tree[path]
            self._tell((command["delete"], True))

    def _tell(self, what) -> None:
        for queue in self.listeners:
            queue.put_nowait(what)

    def notification(self, prefix: pb.Path, paths) -> pb.SubscribeResponse:
        updates = [pb.Update(path=to_wire(parse(p)), val=typed(self.tree[p])) for p in paths]
        return pb.SubscribeResponse(update=pb.Notification(timestamp=time.time_ns(), prefix=prefix, update=updates))

    def matching(self, subscription: pb.Subscription) -> list[str]:
        return [p for p in self.tree if below(parse(p), from_wire(subscription.path))]

    async def subscribe(self, request_iterator, context):
        told = dict(context.invocation_metadata())
        o = self.options
        if o.username and (told.get("username"), told.get("password")) != (o.username, o.password):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "Invalid username or password")
        wanted = (await anext(request_iterator)).subscribe
        for s in wanted.subscription:
            if s.mode == pb.SAMPLE and 0 < s.sample_interval < o.floor_s * 1e9:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"sample interval below {o.floor_s} s")
        # The other side's end is the end, as in targets written in Go.
        ended = asyncio.create_task(self._drain(request_iterator))
        queue: asyncio.Queue = asyncio.Queue()
        self.listeners.add(queue)
        due: dict[int, float] = {}
        prefix = pb.Path(target=wanted.prefix.target, origin=wanted.prefix.origin)
        try:
            for at, s in enumerate(wanted.subscription):
                if paths := self.matching(s):
                    yield self.notification(prefix, paths)
                every_s = (s.sample_interval if s.mode == pb.SAMPLE else s.heartbeat_interval) / 1e9
                if every_s:
                    due[at] = time.monotonic() + every_s
            yield pb.SubscribeResponse(sync_response=True)
            while not ended.done():
                await asyncio.sleep(0.01)
                for response in self._now(wanted, prefix, queue, due):
                    if not self.silent:
                        yield response
        finally:
            self.listeners.discard(queue)
            ended.cancel()

    def _now(self, wanted, prefix, queue, due):
        for at, s in enumerate(wanted.subscription):
            if at in due and time.monotonic() >= due[at]:
                due[at] += (s.sample_interval if s.mode == pb.SAMPLE else s.heartbeat_interval) / 1e9
                if paths := self.matching(s):
                    yield self.notification(prefix, paths)
        while not queue.empty():
            path, gone = queue.get_nowait()
            for s in wanted.subscription:
                if s.mode == pb.ON_CHANGE and below(parse(path), from_wire(s.path)):
                    if gone:
                        deleted = pb.Notification(
                            timestamp=time.time_ns(), prefix=prefix, delete=[to_wire(parse(path))]
                        )
                        yield pb.SubscribeResponse(update=deleted)
                    elif path in self.tree:
                        yield self.notification(prefix, [path])

    @staticmethod
    async def _drain(request_iterator) -> None:
        async for _ in request_iterator:
            pass


def read_pair(options) -> tuple[bytes, bytes]:
    return Path(options.key).read_bytes(), Path(options.cert).read_bytes()


async def main(options) -> None:
    target = Target(options)
    handler = grpc.stream_stream_rpc_method_handler(
        target.subscribe,
        request_deserializer=pb.SubscribeRequest.FromString,
        response_serializer=pb.SubscribeResponse.SerializeToString,
    )
    server = grpc.aio.server(options=[("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("gnmi.gNMI", {"Subscribe": handler}),))
    address = f"127.0.0.1:{options.port}"
    if options.cert:
        client_ca = Path(options.client_ca).read_bytes() if options.client_ca else None  # noqa: ASYNC240 - once
        credentials = grpc.ssl_server_credentials([read_pair(options)], client_ca, require_client_auth=bool(client_ca))
        port = server.add_secure_port(address, credentials)
    else:
        port = server.add_insecure_port(address)
    await server.start()
    print(port, flush=True)
    loop = asyncio.get_running_loop()
    commands: asyncio.Queue = asyncio.Queue()

    def listen() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(commands.put_nowait, json.loads(line))
        loop.call_soon_threadsafe(commands.put_nowait, None)

    threading.Thread(target=listen, daemon=True).start()
    while (command := await commands.get()) is not None:
        target.change(command)
        print("done", flush=True)
    await server.stop(None)


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    for name, default in (
        ("--port", "0"),
        ("--cert", ""),
        ("--key", ""),
        ("--username", ""),
        ("--password", ""),
        ("--client-ca", ""),
    ):
        options.add_argument(name, default=default)
    options.add_argument("--floor-s", type=float, default=0.0)
    asyncio.run(main(options.parse_args()))
