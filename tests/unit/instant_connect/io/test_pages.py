from __future__ import annotations

from pathlib import Path

import pytest

from instant_connect.io.pages import TYPES
from tests.unit.instant_connect.io.site import open_site
from tests.unit.io.support import play


def test_the_page_and_its_modules_are_served() -> None:
    async def story() -> None:
        async with open_site() as site:
            page = await site.client.get("/")
            assert page.headers["content-type"] == "text/html; charset=utf-8"
            assert page.text.lower().startswith("<!doctype html>")
            script = await site.client.get("/app.js")
            assert script.headers["content-type"] == "text/javascript; charset=utf-8"
            for response in (page, script):
                assert response.status_code == 200
                policy = response.headers["content-security-policy"]
                assert "default-src 'none'" in policy
                assert "script-src 'self';" in policy
                assert "unsafe" not in policy
                assert response.headers["x-content-type-options"] == "nosniff"
                assert response.headers["referrer-policy"] == "no-referrer"

    play(story)


def test_a_page_that_the_browser_has_is_not_sent_again() -> None:
    async def story() -> None:
        async with open_site() as site:
            first = await site.client.get("/")
            # an edit shows at once: the browser asks every time
            assert first.headers["cache-control"] == "no-cache"
            again = await site.client.get("/", headers={"If-None-Match": first.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
            other = await site.client.get("/", headers={"If-None-Match": '"other"'})
            assert other.status_code == 200

    play(story)


def test_origin_trials_go_with_the_page() -> None:
    tokens = ("AbC+/=", "second")

    async def story() -> None:
        async with open_site(origin_trials=tokens) as site:
            page = await site.client.get("/")
            assert page.headers.get_list("origin-trial") == list(tokens)
            assert "origin-trial" not in (await site.client.get("/app.js")).headers
            assert (await site.client.get("/v1/client-config")).json()["origin_trial"] is True

    play(story)


@pytest.mark.parametrize(
    "path",
    [
        "/README.md",
        "/no.html",
        "/no/index.html",
        "/.hidden.js",
        "/index.html/app.js",
        "/./index.html/",
        "/%2e%2e/py.typed",
        "/..%2findex.html",
        "/..%2f..%2f..%2fpyproject.toml",
        "/..%5cindex.html",
        "/%00.html",
        "/index.html%00",
        "/a/b/c/d/e.js",
        "/__init__.py",
        "/" + "a" * 5_000 + ".js",
    ],
)
def test_nothing_else_is(path: str) -> None:
    async def story() -> None:
        async with open_site() as site:
            response = await site.client.get(path)
            assert response.status_code == 404
            assert response.json()["error"]["code"] == "not_found"

    play(story)


def test_pages_elsewhere_may_import_the_module_that_begins_calls() -> None:
    there = "https://voice.example"

    async def story() -> None:
        async with open_site(cors_origins=(there,)) as site:
            for name in ("instant-connect.js", "instant-connect.d.ts"):
                response = await site.client.get(f"/{name}", headers={"Origin": there})
                assert response.status_code == 200
                assert response.headers["access-control-allow-origin"] == there
            assert response.headers["content-type"] == "application/typescript; charset=utf-8"

    play(story)


def test_an_application_may_have_its_own_page() -> None:
    async def story() -> None:
        async with open_site(pages=False) as site:
            assert (await site.client.get("/")).status_code == 404
            assert (await site.client.get("/v1/client-config")).status_code == 200

    play(story)


def test_every_file_of_the_page_can_be_sent() -> None:
    folder = Path(__file__).parents[4] / "instant_connect" / "web"
    kinds = {path.suffix for path in folder.iterdir() if path.name != "README.md"}
    assert kinds <= set(TYPES)
