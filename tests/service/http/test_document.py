"""What the documentation says is what the service does."""

from pathlib import Path

from igcf.service.settings import ServiceSettings
from tools.http_document import http_markdown, openapi

DOCS = Path(__file__).parents[3] / "docs"


def test_the_http_reference_is_the_openapi_document() -> None:
    again = "run `python -m tools.http_document > docs/http.md`"
    assert (DOCS / "http.md").read_text() == http_markdown(openapi()), again


def test_every_setting_and_metric_is_documented() -> None:
    text = (DOCS / "operate/configure.md").read_text() + (DOCS / "operate/monitor.md").read_text()
    for name in vars(ServiceSettings()):
        assert f"`{name}`" in text or f"`--{name.replace('_', '-').rstrip('s')}" in text, name
    for metric in ("igcf_requests_total", "igcf_request_seconds", "igcf_shown_items_total", "igcf_feedback_total",
                   "igcf_feedback_duplicates_total", "igcf_sessions_total", "igcf_refused_total"):  # fmt: skip
        assert metric in text, metric
