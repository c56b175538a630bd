"""Starts the test's gNMI target, with certificates of its own authority."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SERVER = Path(__file__).with_name("gnmi_server.py")


def make_certificates(directory: Path, name: str = "switch.test") -> None:
    """Write ca.pem, and cert.pem with key.pem made out to a name."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed (Debian: openssl)")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)

    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(
        "req",
        "-x509",
        *new_key,
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-days",
        "2",
        "-subj",
        f"/CN=authority of {name}",
    )
    openssl("req", *new_key, "-keyout", "key.pem", "-out", "request.pem", "-subj", f"/CN={name}")
    (directory / "extension").write_text(f"subjectAltName=DNS:{name}\n")
    openssl(
        *("x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"),
        *("-days", "2", "-extfile", "extension", "-out", "cert.pem"),
    )


class GnmiTarget:
    def __init__(self, *options: str) -> None:
        self.options = list(options)
        self.port = 0
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(SERVER), *self.options, "--port", str(self.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.port = int(self.process.stdout.readline())

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def say(self, **command) -> None:
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def set(self, tree: dict) -> None:
        self.say(set=tree)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
