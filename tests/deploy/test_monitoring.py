"""Alerts, scraping and the dashboard: read by the rules that Prometheus and Grafana read them by."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "dashboards" / "gatehouse.json").read_text())
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
METRICS = {
    "up": {"job", "instance"},
    "gatehouse_runs_total": {"status", "path"},
    "gatehouse_gate_results_total": {"gate", "result"},
    "gatehouse_rewrites_total": set(),
    "gatehouse_regens_total": set(),
    "gatehouse_web_status_total": {"status"},
    "gatehouse_node_seconds_bucket": {"node", "le"},
    "gatehouse_limiter_fallbacks_total": set(),
    "gatehouse_tokens_total": {"kind"},
    "gatehouse_cost_usd_total": set(),
    "gatehouse_event_loop_lag_seconds": set(),
}
"""What `/metrics` shows, with its labels."""


def expressions() -> list[str]:
    shown = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return [rule["expr"] for rule in RULES] + [expr.replace("$__rate_interval", "5m") for expr in shown]


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_names_metrics_that_there_are_with_labels_they_have(expression: str) -> None:
    named = set(re.findall(r"\b(?:up|gatehouse_\w+)\b(?!\")", expression))
    assert named
    assert named <= METRICS.keys()
    labels = set(re.findall(r"(\w+)\s*=~?\s*\"", expression))
    labels |= {word.strip() for words in re.findall(r"\bby \(([^)]*)\)", expression) for word in words.split(",")}
    assert labels <= {"instance", *(label for name in named for label in METRICS[name])}


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


def test_the_dashboard_shows_every_metric() -> None:
    shown = " ".join(expressions()[len(RULES) :])
    assert [name for name in METRICS if name not in shown] == []
