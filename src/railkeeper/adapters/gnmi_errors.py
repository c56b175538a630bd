"""What went wrong on the way to a gNMI target, in words that say what to look at."""

from __future__ import annotations

import grpc

from railkeeper.base.errors import OutsideError

_MOST_CHARS = 300
_OF_CODE = {
    grpc.StatusCode.UNAUTHENTICATED: "the target refuses this account",
    grpc.StatusCode.PERMISSION_DENIED: "the target refuses this account",
    grpc.StatusCode.INVALID_ARGUMENT: "the target refuses a subscription",
    grpc.StatusCode.UNIMPLEMENTED: "it has no gNMI Subscribe, or not of this kind",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "a message is larger than what is accepted",
}


def outside(address: str, error: grpc.RpcError, *, ca_file: str = "") -> OutsideError:
    """Return gRPC's error in our words."""
    code = error.code() if callable(getattr(error, "code", None)) else None
    details = " ".join(str(getattr(error, "details", lambda: "")() or "").split())[:_MOST_CHARS]
    return OutsideError(f"gNMI {address}: {_words(code, details, ca_file)}", retry=True)


def _words(code: grpc.StatusCode | None, details: str, ca_file: str) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in details:
        return f"its certificate is not signed by {ca_file or 'an authority that this machine knows'}"
    if "Hostname Verification" in details or "Peer name" in details:
        return "its certificate is made out to another name: set server_name to the name in it"
    if "WRONG_VERSION_NUMBER" in details or "handshake failed" in details.lower():
        return f"no TLS with it: it speaks clear text, or wants a certificate of ours ({details})"
    known = _OF_CODE.get(code) if code else None
    return f"{known or (code.name.lower() if code else 'failed')}: {details}"
