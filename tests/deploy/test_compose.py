"""docker-compose.yml and the secrets it is started with. No Docker engine is needed: it is read, not run."""

import json
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.settings import Settings

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docker-compose.yml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
SECRET = re.compile(r"PASSWORD|SECRET|SALT|TOKEN|ENCRYPTION|API_KEY|_AUTH$|_URL$")
VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)(:[?-][^}]*)?\}")
OTHER_PARTS = {"LANGFUSE_HOST", "LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY"}
"""Settings of traces."""


def make_env(file: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(ROOT / "deploy" / "make-env"), "--file", str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def written(file: Path) -> dict[str, str]:
    pairs = [line.partition("=") for line in file.read_text().splitlines() if line and not line.startswith("#")]
    return {name: value for name, _, value in pairs}


def images() -> Iterator[tuple[str, str]]:
    for name, service in SERVICES.items():
        yield name, service["image"]


def test_the_file_is_valid_against_the_compose_specification() -> None:
    checker = pytest.importorskip("check_jsonschema", reason="the schema comes with check-jsonschema")
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((files(checker) / "builtin_schemas" / "vendor" / "compose-spec.json").read_text())
    # The address it gives for its draft begins with https in one release and with http in the next.
    validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft7Validator)(schema)
    assert [error.message for error in validator.iter_errors(COMPOSE)] == []
    assert list(validator.iter_errors({"services": {"x": {"imagee": "y"}}}))


def test_every_image_is_pinned_to_a_version() -> None:
    for name, image in images():
        tag = image.rpartition(":")[2]
        assert re.search(r"\d+\.\d+|\d{4}-\d\d-\d\d", tag), (name, image)
        assert "latest" not in tag


def test_everything_the_issue_names_is_there_and_says_when_it_is_healthy() -> None:
    needed = {"gatehouse", "nginx", "milvus", "etcd", "minio", "redis", "postgres", "langfuse-web", "langfuse-worker"}
    assert needed | {"clickhouse", "prometheus", "grafana"} <= SERVICES.keys()
    for name, service in SERVICES.items():
        if name not in ("gatehouse", "ingest"):  # the image has its own check
            assert service["healthcheck"]["test"], name
        if name != "ingest":
            assert service["restart"] == "unless-stopped", name
    assert "HEALTHCHECK" in (ROOT / "deploy" / "Dockerfile").read_text()
    milvus = tuple(int(part) for part in SERVICES["milvus"]["image"].rpartition(":v")[2].split("."))
    assert milvus >= (2, 5)
    assert SERVICES["redis"]["image"].startswith("redis:8.")


def test_what_a_service_waits_for_exists_and_what_it_keeps_is_a_named_volume() -> None:
    named = set(COMPOSE["volumes"])
    used = set()
    for name, service in SERVICES.items():
        assert set(service.get("depends_on", {})) <= SERVICES.keys(), name
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            if source.startswith("./"):
                assert (ROOT / source).exists(), source
            elif not source.startswith("$"):
                used.add(source)
    assert used == named


def test_no_secret_has_a_default(tmp_path: Path) -> None:
    assert make_env(tmp_path / "env").returncode == 0
    made = written(tmp_path / "env")
    for name, fallback in VARIABLE.findall(TEXT):
        if fallback.startswith(":?"):
            assert made.get(name), f"deploy/make-env does not make {name}"
        else:
            assert fallback == ":-" or name == "PAGES", (name, fallback)
    for service, body in SERVICES.items():
        for name, value in body.get("environment", {}).items():
            password = re.search(r"//[^/@:]*:([^@]+)@", str(value))
            if password:
                assert password[1].startswith("${"), (service, name)
            elif SECRET.search(name) and not re.fullmatch(r"(?:https?|clickhouse)://[\w.-]+:\d+", str(value)):
                assert VARIABLE.search(str(value)), (service, name, value)


def test_nothing_is_published_beyond_loopback() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_the_service_is_given_settings_that_it_knows() -> None:
    given = set(SERVICES["gatehouse"]["environment"])
    assert given - OTHER_PARTS <= Settings.model_fields.keys()
    assert {"MILVUS_URI", "DATABASE_URL", "REDIS_URL"} <= given


def test_the_stores_reach_nothing_outside_and_the_service_runs_without_privileges() -> None:
    assert COMPOSE["networks"]["back"]["internal"] is True
    for name in ("milvus", "etcd", "minio", "redis", "postgres", "clickhouse"):
        assert SERVICES[name]["networks"] == ["back"]
    service = SERVICES["gatehouse"]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert int(service["stop_grace_period"].removesuffix("s")) > 15
    assert service["environment"]["TRUSTED_PROXIES"] == COMPOSE["networks"]["front"]["ipam"]["config"][0]["subnet"]


def test_make_env_writes_fresh_secrets_for_its_owner_only(tmp_path: Path) -> None:
    made = make_env(tmp_path / "one")
    assert make_env(tmp_path / "other").returncode == 0
    one, other = written(tmp_path / "one"), written(tmp_path / "other")
    assert stat.S_IMODE((tmp_path / "one").stat().st_mode) == 0o600
    secret = {name for name in one if SECRET.search(name) and not name.startswith(("ANTHROPIC", "PUBLIC"))}
    assert len(secret) > 10
    assert all(one[name] != other[name] and len(one[name]) >= 32 for name in secret)
    assert len({one[name] for name in secret}) == len(secret)
    assert re.fullmatch(r"first:[0-9a-f]{64}", one["API_KEYS"])
    key = re.search(r"gh_[\w-]{43}", made.stdout)
    assert key
    assert key[0] not in (tmp_path / "one").read_text()


def test_make_env_never_changes_secrets_that_are_there(tmp_path: Path) -> None:
    assert make_env(tmp_path / "env").returncode == 0
    kept = (tmp_path / "env").read_bytes()
    again = make_env(tmp_path / "env")
    assert (again.returncode, again.stdout) == (1, "")
    assert "RUNBOOK.md" in again.stderr
    assert (tmp_path / "env").read_bytes() == kept
