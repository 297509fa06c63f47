"""The JavaScript client in Node and in a browser, against a real server."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from igcf.service.http.page import WEB
from tests.service.processes import Server
from tests.web.conftest import ARGS, CHROMIUM
from tools.api_types import api_types, page_types
from tools.http_document import openapi

CLIENT = Path(__file__).parents[2] / "clients" / "js"
NODE = shutil.which("node")


def test_the_types_are_those_of_the_openapi_document() -> None:
    again = "run `python -m tools.api_types > clients/js/src/api.d.ts`"
    assert (CLIENT / "src" / "api.d.ts").read_text() == api_types(openapi()), again
    again = "run `python -m tools.api_types --page > tools/page_api.d.ts`"
    assert (CLIENT.parents[1] / "tools" / "page_api.d.ts").read_text() == page_types(), again


def test_the_page_serves_the_module_of_the_client() -> None:
    assert (WEB / "client.js").read_bytes() == (CLIENT / "src" / "index.js").read_bytes()


def test_the_client_has_a_method_for_every_route_but_those_of_the_page() -> None:
    code = (CLIENT / "src" / "index.js").read_text()
    code = re.sub(r"\$\{search\([^`]*\)\}`", "`", code)
    called = {
        (method.lower(), re.sub(r"\$\{part\(\w+\)\}", "{}", path))
        for method, path in re.findall(r'this\.call\("(\w+)", ["`](/v1[^"`]*)["`]', code)
    }
    routes = {
        (method, re.sub(r"\{\w+\}", "{}", path))
        for path, methods in openapi()["paths"].items()
        for method in methods
        if path.startswith("/v1/") and not path.endswith(("/beliefs", "/choices", "/stats"))
    }
    assert called == routes


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="Node is not installed")
def test_the_tests_of_the_package_pass_in_node(server: Server) -> None:
    assert NODE is not None
    files = sorted(map(str, (CLIENT / "test").glob("*.test.js")))
    result = subprocess.run(
        [NODE, "--test", "--test-reporter=tap", *files],
        capture_output=True,
        text=True,
        env=os.environ | {"IGCF_URL": server.url},
        timeout=120,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "# skipped 0" in result.stdout


@pytest.mark.slow
def test_the_ten_lines_of_the_readme_recommend_and_learn(server: Server, shop: str, site: Path) -> None:
    found = re.search(r"```html\n(.*?)```", (CLIENT / "README.md").read_text(), re.DOTALL)
    assert found is not None
    (site / "snippet.html").write_text(found[1].replace("http://127.0.0.1:8000", server.url))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS.split())
        page = browser.new_page()
        page.goto(f"{shop}/snippet.html")
        page.wait_for_selector("#picks li")
        assert page.locator("#picks li").count() == 5
        with page.expect_response(lambda reply: reply.url.endswith("/feedback") and reply.status == 200):
            page.locator("#picks li").first.click()
        browser.close()


IN_A_BROWSER = """async ([api, own]) => {
  const { Client, RefusedError } = await import(`${own}/igcf/index.js`);
  const igcf = new Client(api);
  const { items } = await igcf.recommend("tab", { k: 3, rules: { diversity: 0.5 } });
  await igcf.feedback("tab", items[0].item, 5);
  await igcf.history("tab", [{ item: items[1].item, value: 4 }]);
  await igcf.addItems([{ id: "from/a/page", title: "Posted" }]);
  await igcf.changeItem("from/a/page", { title: "Patched" });
  const { title } = await igcf.item("from/a/page");
  await igcf.retireItem("from/a/page");
  const merged = await igcf.merge("signed-in", "tab");
  const many = await igcf.recommendMany(["signed-in", "tab"], { k: 1 });
  const refused = await igcf.similar("no such item").catch((error) => error instanceof RefusedError);
  const { items: trending } = await igcf.items({ sort: "trending", limit: 2 });
  return [title, merged.moved, many.results.map((each) => each.answer.revision > 0), refused, trending.length];
}"""


@pytest.mark.slow
def test_the_client_reaches_every_kind_of_route_from_a_page_of_another_origin(server: Server, shop: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS.split())
        page = browser.new_page()
        page.goto(f"{shop}/?api={server.url}&user=looker-on")
        assert page.evaluate(IN_A_BROWSER, [server.url, shop]) == ["Patched", 2, [True, False], True, 2]
        browser.close()


@pytest.mark.slow
def test_the_shop_recommends_and_learns_in_a_browser_also_while_offline(server: Server, shop: str) -> None:
    """The page of examples/shop comes from another origin than the service."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS.split())
        page = browser.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(f"{shop}/?api={server.url}&user=browser-shopper")
        page.wait_for_selector("#shelf li")
        assert page.locator("#shelf li").count() == 6
        page.get_by_role("button", name="I want it").first.click()
        page.get_by_text("after 1 reactions").wait_for()

        page.route(f"{server.url}/**", lambda route: route.abort())
        page.get_by_role("button", name="Not for me").first.click()
        page.get_by_text("1 reactions wait here and are not lost").wait_for(timeout=20_000)
        page.unroute(f"{server.url}/**")
        page.evaluate("dispatchEvent(new Event('online'))")
        page.wait_for_function("Object.keys(localStorage).every((key) => !key.startsWith('igcf.queue'))")
        page.reload()
        page.get_by_text("after 2 reactions").wait_for()
        assert problems == []
        browser.close()
