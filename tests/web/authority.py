"""Certificates for the loopback peers, made anew for each test session by the openssl command."""

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ENGINE = "html.duckduckgo.com"
NAMES = (ENGINE, *(f"{name}.test" for name in ("a", "b", "c", "one", "rebind", "mix", "rules", "news", "evil")))


@dataclass(frozen=True)
class Authority:
    """`ca` is the PEM file that a client trusts; `server` is what the peers show."""

    ca: Path
    server: ssl.SSLContext

    @property
    def client(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca))


def make_authority(folder: Path, names: tuple[str, ...] = NAMES) -> Authority:
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command is not installed")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl(folder, "req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=loopback")
    openssl(folder, "req", *key, "-keyout", "leaf.key", "-out", "leaf.csr", "-subj", "/CN=peer")
    (folder / "leaf.ext").write_text(f"subjectAltName={','.join(f'DNS:{name}' for name in names)}\n")
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "leaf.ext"]
    openssl(folder, "x509", "-req", "-in", "leaf.csr", "-out", "leaf.pem", *signed)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "leaf.pem", folder / "leaf.key")
    return Authority(folder / "ca.pem", server)


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)
