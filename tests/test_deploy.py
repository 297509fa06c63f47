"""The files in `deploy/` fit the service: every metric, setting and route that they name exists."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from fastapi.testclient import TestClient

from igcf.service.context import ServiceContext
from igcf.service.http.application import create_app
from igcf.service.settings import ServiceSettings
from igcf.service.sources import load_settings
from tests.toys import random_model

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
PAGE = (ROOT / "docs" / "operate" / "monitor.md").read_text(encoding="utf-8")
VARIABLES = {f"IGCF_{name.upper()}" for name in ServiceSettings.model_fields}
ALERTS: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus-alerts.yml").read_text())
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yml").read_text())


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names of all metrics that a server tells of."""
    folder = tmp_path_factory.mktemp("deploy")
    random_model().save(folder / "model")
    context = ServiceContext.open(folder / "model", ServiceSettings(store=str(folder / "s.db")))
    text = TestClient(create_app(context)).get("/metrics").text
    context.close()
    return {name for name in re.findall(r"^# TYPE (igcf_\w+) ", text, re.MULTILINE) if not name.endswith("_created")}


def named(text: str) -> set[str]:
    return {name.removesuffix("_bucket") for name in re.findall(r"\bigcf_[a-z_]+", text)}


def test_alerts_and_dashboard_name_metrics_that_exist(metrics: set[str]) -> None:
    rules = [rule for group in ALERTS["groups"] for rule in group["rules"]]
    assert all(rule["annotations"]["summary"] and rule["labels"]["severity"] for rule in rules)
    panels = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert named(" ".join(rule["expr"] for rule in rules)) <= metrics
    assert named(" ".join(queries)) == metrics - {"igcf_request_seconds_count"}, "the dashboard shows every metric"


def test_every_metric_is_documented(metrics: set[str]) -> None:
    assert [name for name in sorted(metrics) if f"`{name}`" not in PAGE] == []


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_the_configuration(tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "prometheus-alerts.yml", tmp_path)
    (tmp_path / "key").touch()
    text = (DEPLOY / "prometheus.yml").read_text().replace("/run/secrets/igcf_admin_key", str(tmp_path / "key"))
    (tmp_path / "prometheus.yml").write_text(text)
    done = subprocess.run(["promtool", "check", "config", tmp_path / "prometheus.yml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    units = [tmp_path / name for name in ("igcf.service", "igcf-retrain.service", "igcf-retrain.timer")]
    for unit in units:
        unit.write_text((DEPLOY / unit.name).read_text().replace("/opt/igcf/bin/igcf", shutil.which("true") or ""))
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("hadolint", ["Dockerfile"]), ("kubernetes-validate", ["--strict", "--no-warn", "kubernetes.yaml"])],
)
def test_linters_accept_the_files(tool: str, arguments: list[str]) -> None:
    command = shutil.which(tool, path=str(Path(sys.executable).parent))
    assert command is not None, f"{tool} is not installed: run `make setup`"
    done = subprocess.run([command, *arguments], cwd=DEPLOY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_settings_named_in_files_are_settings() -> None:
    loaded = load_settings({}, file=DEPLOY / "igcf.toml")
    assert loaded.settings.workers == 2
    texts = [(DEPLOY / name).read_text() for name in ("Dockerfile", "compose.yml", "igcf.service", "kubernetes.yaml")]
    assert {name for text in texts for name in re.findall(r"\bIGCF_[A-Z_]+", text)} <= VARIABLES


def test_health_checks_ask_for_readiness_and_secrets_are_files() -> None:
    assert "/readyz" in (DEPLOY / "Dockerfile").read_text()
    assert all("healthcheck" in COMPOSE["services"][name] for name in ("igcf", "db"))
    used = {secret for service in COMPOSE["services"].values() for secret in service.get("secrets", ())}
    assert used == set(COMPOSE["secrets"])
    for name, value in COMPOSE["services"]["igcf"]["environment"].items():
        if name.endswith("_FILE"):
            assert Path(value).name in COMPOSE["services"]["igcf"]["secrets"]
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert [name for line in copied for name in line.split() if not (ROOT / name).exists()] == []
