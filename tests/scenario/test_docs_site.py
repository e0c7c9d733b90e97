"""The documentation site: it builds, its links lead somewhere, its pages fit on a phone, and what it shows works."""
import functools
import html
import http.server
import re
import subprocess
import threading

import pytest

from lib import browser
from lib.haproxy import PROGRAM as HAPROXY
from lib.process import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.plain]
PHONE, DESKTOP = (390, 844), (1440, 900)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, which is built once. `./dev docs` fails if a link leads nowhere."""
    folder = tmp_path_factory.mktemp("site") / "site"
    done = subprocess.run([REPOSITORY / "dev", "docs", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def url(site):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    if not browser.PROGRAM:
        pytest.skip("chromium is not installed")
    one = browser.Browser(tmp_path_factory.mktemp("chromium") / "profile")
    yield one
    one.close()


def pages(site):
    return sorted(path.parent.relative_to(site).as_posix() for path in site.rglob("index.html"))


def test_a_dead_link_fails_the_check(site, tmp_path):
    (tmp_path / "index.html").write_text('<p id="here"><a href="#here"></a><a href="#gone"></a><a href="no/"></a>'
                                         '<script src="https://cdn.example/x.js"></script></p>')
    done = subprocess.run([REPOSITORY / "tools" / "check-site", tmp_path], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout.splitlines()[:-1] == [
        "index.html: loads https://cdn.example/x.js",
        "index.html: links to #gone, and that page has no such anchor",
        "index.html: links to no/, which does not exist",
    ]


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_pages_need_no_horizontal_scrolling_and_no_other_server(site, url, chromium, size):
    for page in pages(site):
        chromium.open(f"{url}/{page}/", *size)
        width = chromium.value("document.documentElement.scrollWidth")
        assert width <= size[0], f"{page} is {width} wide"
        assert chromium.value("document.querySelector('article h1').textContent"), page
        assert chromium.value("[...document.images].every(one => one.naturalWidth > 0)"), f"{page}: a picture is missing"
        others = [one for one in chromium.requests if not one.startswith((url, "data:"))]
        assert not others, f"{page} requests {others}"


def test_the_search_finds_a_flag(url, chromium):
    chromium.open(f"{url}/", *DESKTOP)
    found = chromium.value("""new Promise(done => {
        const box = document.querySelector("[data-md-component=search-query]");
        const result = () => document.querySelector(".md-search-result__item a");
        const look = () => result() ? done(result().href) : setTimeout(look, 50);
        document.querySelector("label[for=__search]").click();
        box.focus();
        box.value = "node-delete-require-witness";
        box.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}));
        box.dispatchEvent(new Event("input", {bubbles: true}));
        look();
    })""")
    assert "/reference/flags/" in found or "/deletion/" in found


def words(path):
    """Of the picture. What differs from run to run is replaced: times, ports, and which machine answers curl."""
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text())
    without_uids = [re.sub(r"\ba[0-9a-f]{31}\b", "BALANCER", html.unescape(text)) for text in texts]
    texts = [re.sub(r"[\d.]+", "N", " ".join(text.split())) for text in without_uids]
    return ["MACHINE" if text in ("control-N", "worker-N") else text for text in texts if text]


def test_the_picture_shows_what_the_demo_prints(tmp_path):
    if not HAPROXY:
        pytest.skip("haproxy is not installed")
    done = subprocess.run([REPOSITORY / "tools" / "demo-picture", tmp_path / "demo.svg"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert words(tmp_path / "demo.svg") == words(REPOSITORY / "docs" / "pictures" / "demo.svg")


def test_the_pictures_show_what_the_commands_print(tmp_path):
    done = subprocess.run([REPOSITORY / "tools" / "operator-picture", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for path in tmp_path.iterdir():
        assert words(path) == words(REPOSITORY / "docs" / "pictures" / path.name)
