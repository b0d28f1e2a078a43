"""Requests to the API server of Kubernetes, each with a limit of time and size."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from morph_opt.core.documents import JSON_BYTES, parse_json
from morph_opt.core.documents.source import raised
from morph_opt.core.domain import InputError
from morph_opt.inputs.kueue.kube import OBJECT_CHARACTERS
from morph_opt.live.scheduler import AwayError, RefusedError
from morph_opt.live.settings import Settings

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Folder of a pod with its account's token and the API server's certificates."""
MERGE = "application/merge-patch+json"
_GROUPS = {"pod": "", "job": "batch", "lease": "coordination.k8s.io"}
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_PAGE = 500
_AGAIN = 3
_GONE = 410


class StatusError(RefusedError):
    """Refusal of a request by the API server, with a status of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status} {message}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Reply:
    """Object of an answer, with the API server's time in whole seconds."""

    value: dict[str, Any]
    time_s: float


class Api:
    """Connection to the API server of `Settings.server`, or of the surrounding pod.

    Raises
    ------
    InputError
        If it is neither, or its address is not one for a token.
    """

    def __init__(self, settings: Settings) -> None:
        self._limit_s = settings.timeout_s
        server, self._token = settings.server, settings.folder / settings.token
        ca: Path | None = settings.folder / settings.ca if settings.ca else None
        if not server:
            host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
            if not host:
                rule = "must be given: this is no pod (kubectl proxy makes http://127.0.0.1:8001)"
                raise InputError(rule, field="server")
            host = f"[{host}]" if ":" in host else host
            server = f"https://{host}:{os.environ.get('KUBERNETES_SERVICE_PORT', '443')}"
            self._token, ca = ACCOUNT / "token", ACCOUNT / "ca.crt"
        try:
            parts = urlsplit(server)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            host, port = "", None
        if not host or (parts.scheme, host in _LOOPBACK) not in (
            ("https", True),
            ("https", False),
            ("http", True),
        ):
            rule = f"must be https://HOST:PORT, or http:// of this machine, got {server!r}"
            raise InputError(rule, field="server")
        self._where = host, port
        self._prefix = parts.path.rstrip("/")
        self._tls = None
        if parts.scheme == "https":
            try:
                self._tls = ssl.create_default_context(cafile=ca)
            except (OSError, ssl.SSLError) as error:
                raise InputError(f"cannot be read ({error})", field="ca") from None

    def call(self, verb: str, path: str, body: Any = None, kind: str = "application/json") -> Reply:
        """Send one request.

        Raises
        ------
        AwayError
            If there is no answer within the limit, or one that defers the request.
        StatusError
            If it is refused.
        """
        headers = {"Accept": "application/json", "User-Agent": "morph-opt"}
        if self._tls is not None and self._token.is_file():
            # Kubernetes changes it every hour.
            headers["Authorization"] = f"Bearer {self._token.read_text('utf-8').strip()}"
        text = None
        if body is not None:
            text, headers["Content-Type"] = json.dumps(body).encode(), kind
        try:
            status, found, date = self._send(verb, self._prefix + path, text, headers)
            text_of = (found or b"{}").decode()
            value = parse_json(text_of, path, characters=OBJECT_CHARACTERS)
            time_s = parsedate_to_datetime(date).timestamp()
        except (OSError, http.client.HTTPException, ValueError, TypeError) as error:
            raise AwayError(f"{verb} {path}: {error}") from None
        message = " ".join(str(value.get("message", "")).split())[:300]
        if status in (401, 429) or status >= 500:
            raise AwayError(f"{verb} {path}: {status} {message}")
        if status >= 300:
            raise StatusError(status, message)
        return Reply(value, time_s)

    def _send(
        self, verb: str, path: str, text: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes, str]:
        host, port = self._where
        line: http.client.HTTPConnection
        if self._tls is None:
            line = http.client.HTTPConnection(host, port, timeout=self._limit_s)
        else:
            line = http.client.HTTPSConnection(host, port, timeout=self._limit_s, context=self._tls)
        end_s, most = time.monotonic() + self._limit_s, raised(JSON_BYTES)
        try:
            line.request(verb, path, text, headers)
            answer = line.getresponse()
            parts: list[bytes] = []
            while part := answer.read1(1 << 20):
                parts.append(part)
                if time.monotonic() > end_s or sum(map(len, parts)) > most:
                    raise OSError("too long an answer")
            return answer.status, b"".join(parts), answer.headers.get("Date", "")
        finally:
            line.close()

    def listed(self, path: str, **query: str) -> tuple[list[dict[str, Any]], float]:
        """List the objects of a kind page by page; return them with the time of the last page.

        A page that comes too late is 410 Gone: what was listed is compacted. Then the whole list is
        requested again.

        Raises
        ------
        AwayError
            See `call`; or if it is gone again and again.
        StatusError
            If they may not be listed.
        """
        for _ in range(_AGAIN):
            items: list[dict[str, Any]] = []
            more: Mapping[str, str] = {}
            try:
                while True:
                    words = urlencode({"limit": str(_PAGE), **query, **more})
                    reply = self.call("GET", f"{path}?{words}")
                    items += reply.value.get("items") or []
                    token = reply.value.get("metadata", {}).get("continue")
                    if not token:
                        return items, reply.time_s
                    more = {"continue": token}
            except StatusError as error:
                if error.status != _GONE:
                    raise
        raise AwayError(f"GET {path}: its pages are gone before they are read")


def path_of(kind: str, namespace: str, name: str = "", version: str = "v1") -> str:
    """Return the path of an object, or of all objects of a namespace.

    Parameters
    ----------
    kind
        As ``kubectl`` takes it: ``workload.kueue.x-k8s.io`` is one of a group of others.
    version
        Version of the API group.
    """
    word, _, group = kind.partition(".")
    group = group or _GROUPS[word]
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    end = f"/{quote(name, safe='')}" if name else ""
    return f"{root}/namespaces/{quote(namespace, safe='')}/{word}s{end}"
