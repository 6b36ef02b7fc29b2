"""Alerts, scraping and the dashboard: read by the rules that Prometheus and Grafana read them by."""

import json
import re
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.observe.scraped import a_busy_registry, labels_by_name

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "dashboards" / "gatehouse.json").read_text())
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
OF_PROMETHEUS = {"up": {"job", "instance"}}
OF_TARGET = {"job", "instance"}


@pytest.fixture(scope="module")
def metrics() -> dict[str, set[str]]:
    """What `/metrics` shows: the name of every series with its labels, as a registry that saw a run has them."""
    return OF_PROMETHEUS | labels_by_name(a_busy_registry())


def expressions() -> list[str]:
    shown = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return [rule["expr"] for rule in RULES] + [expr.replace("$__rate_interval", "5m") for expr in shown]


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_names_metrics_that_there_are_with_labels_they_have(
    expression: str, metrics: dict[str, set[str]]
) -> None:
    named = set(re.findall(r"\b(?:up|gatehouse_\w+|process_\w+)\b(?!\")", expression))
    assert named
    assert named <= metrics.keys()
    labels = set(re.findall(r"(\w+)\s*=~?\s*\"", expression))
    labels |= {word.strip() for words in re.findall(r"\bby \(([^)]*)\)", expression) for word in words.split(",")}
    assert labels <= OF_TARGET | {label for name in named for label in metrics[name]}


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_is_valid_promql(expression: str) -> None:
    promql = pytest.importorskip("promql_parser", reason="the parser comes with promql-parser")
    assert promql.parse(expression)


def test_every_alert_says_how_urgent_it_is_and_the_runbook_says_what_it_means() -> None:
    headings = re.findall(r"^### (\w+)$", (DEPLOY / "RUNBOOK.md").read_text(), re.MULTILINE)
    assert headings == [rule["alert"] for rule in RULES]
    for rule in RULES:
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["runbook"] == f"deploy/RUNBOOK.md#{rule['alert'].lower()}"


def test_prometheus_asks_every_replica_itself_and_reads_the_rules() -> None:
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    [job] = [job for job in config["scrape_configs"] if job["job_name"] == "gatehouse"]
    assert (job["metrics_path"], job["dns_sd_configs"][0]["type"]) == ("/metrics", "A")
    assert all((DEPLOY / "prometheus" / name).exists() for name in config["rule_files"])


def test_the_dashboard_is_one_that_grafana_can_show() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    [variable] = DASHBOARD["templating"]["list"]
    assert (variable["name"], variable["type"]) == ("datasource", "datasource")
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + dx, place["y"] + dy) for dx in range(place["w"]) for dy in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
        for target in panel["targets"]:
            assert target["datasource"]["uid"] == "${datasource}"
            assert target["refId"]
            assert target["expr"]


def test_the_dashboard_shows_every_metric(metrics: dict[str, set[str]]) -> None:
    shown = " ".join(expressions()[len(RULES) :])
    ours = {re.sub(r"_(bucket|sum|count)$", "", name) for name in metrics if name.startswith("gatehouse_")}
    assert [name for name in ours if name not in shown] == []


def test_prometheus_is_let_in_from_the_networks_of_the_compose_file() -> None:
    compose = yaml.safe_load((DEPLOY.parent / "docker-compose.yml").read_text())
    allowed = IPv4Network(compose["services"]["gatehouse"]["environment"]["METRICS_NETWORKS"])
    for network in compose["services"]["prometheus"]["networks"]:
        [place] = compose["networks"][network]["ipam"]["config"]
        assert IPv4Network(place["subnet"]).subnet_of(allowed)
