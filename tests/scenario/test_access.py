"""Access to the secure port, as the real API server decides it: tokens, certificates, RBAC."""
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lib.api import Api
from lib.ccmd import run_ccmd
from lib.certs import Authority
from lib.faultproxy import answer, delay, silence
from lib.process import free_ports
from lib.wait import Timeout, wait_for

pytestmark = [pytest.mark.needs_binary]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
TOKEN_REVIEWS = r"/tokenreviews$"
RIGHTS_REVIEWS = r"/subjectaccessreviews$"
CONFIG_MAP = r"/configmaps/extension-apiserver-authentication$"
ANONYMOUS = "system:anonymous"


def role(name):
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}


@pytest.fixture(scope="session")
def accounts(cluster):
    """Two ServiceAccounts, of which "scraper" may read /metrics and "stranger" nothing."""
    api = cluster.api()
    for name in ("scraper", "stranger"):
        api.ensure(ACCOUNTS, {"metadata": {"name": name}})
    api.ensure(f"{RBAC}/clusterroles", {"metadata": {"name": "scrape"},
                                        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]})
    subject = {"kind": "ServiceAccount", "name": "scraper", "namespace": "default"}
    api.ensure(f"{RBAC}/clusterrolebindings", {"metadata": {"name": "scrape"}, "roleRef": role("scrape"),
                                               "subjects": [subject]})


@pytest.fixture
def token(cluster, accounts):
    return lambda name="scraper": cluster.kubectl("create", "token", name).strip()


class Serving:
    """A ccmd with its secure port, and requests to it."""

    def __init__(self, cluster, process, port):
        self.cluster, self.process, self.port = cluster, process, port
        self.url = f"https://127.0.0.1:{port}"

    def ask(self, path, pair=None, token=None, headers=None, timeout=20):
        with Api(self.url, self.cluster.ca, pair, token=token, timeout=timeout) as api:
            return api.request("GET", path, headers=headers)

    def status(self, path, **caller):
        return self.ask(path, **caller).status

    def refusal(self, path, **caller):
        """The Status object of a 403, checked to be one; returns its message."""
        refused = self.ask(path, **caller)
        assert refused.status == 403, refused.body
        body = refused.json()
        assert (body["kind"], body["status"], body["reason"], body["code"]) == ("Status", "Failure", "Forbidden", 403)
        return body["message"]

    def is_unauthorized(self, path, **caller):
        refused = self.ask(path, **caller)
        return refused.status == 401 and (refused.json()["message"], refused.json()["reason"]) == ("Unauthorized",) * 2

    def wait_open(self):
        def listens():
            assert self.process.running, f"ccmd ended with {self.process.exit_code}: {self.process.text[-2000:]}"
            try:
                return self.status("/healthz", timeout=5) == 200
            except OSError:
                return False

        wait_for(listens, what="the secure port to open")
        return self


@pytest.fixture
def serve(cluster, ccmd, request):
    """serve("--flag", option=value): a ccmd whose secure port is open; through the fault proxy if the test has one."""
    pair = cluster.authority.server("serving")

    def start(*flags, reviewer=None, **options):
        (port,) = free_ports(1)
        if reviewer is None:
            through_proxy = "proxy" in request.fixturenames
            reviewer = (cluster.kubeconfig("reviewer", url=request.getfixturevalue("proxy").url) if through_proxy
                        else cluster.ccmd_kubeconfig)
        process = ccmd(
            "--bind-address=127.0.0.1", f"--tls-cert-file={pair.certificate}",
            f"--tls-private-key-file={pair.key}", f"--authentication-kubeconfig={reviewer}",
            f"--authorization-kubeconfig={reviewer}", *flags, secure_port=port, **options,
        )
        return Serving(cluster, process, port).wait_open()

    return start


def forbidden(user, path="/metrics"):
    return f'forbidden: User "{user}" cannot get path "{path}"'


# --- who comes without anything -----------------------------------------------------------------------------------------


def test_health_is_open_to_everyone_and_other_paths_are_not(serve):
    serving = serve()
    assert serving.ask("/healthz").body == b"ok"
    for path in ("/metrics", "/configz", "/no/such/path", "/healthz/../metrics"):
        assert serving.refusal(path) == forbidden(ANONYMOUS, path)


def test_headers_of_front_proxies_are_ignored(serve, cluster):
    serving = serve()
    forged = {"X-Remote-User": "kubernetes-admin", "X-Remote-Group": "system:masters"}
    assert serving.refusal("/metrics", headers=forged) == forbidden(ANONYMOUS)
    jane = cluster.authority.client("jane", "jane")
    assert serving.refusal("/metrics", headers=forged, pair=jane) == forbidden("jane")
    proxy = cluster.front_proxy_authority.client("front-proxy", "front-proxy-client")
    assert serving.is_unauthorized("/metrics", headers=forged, pair=proxy), "not even from a front proxy"


# --- tokens --------------------------------------------------------------------------------------------------------------


def test_tokens_of_service_accounts(serve, token):
    serving = serve()
    scraped = serving.ask("/metrics", token=token())
    assert scraped.status == 200 and b"# TYPE" in scraped.body
    assert serving.refusal("/configz", token=token()) == forbidden("system:serviceaccount:default:scraper", "/configz")
    assert serving.refusal("/metrics", token=token("stranger")) == forbidden("system:serviceaccount:default:stranger")


def test_a_wrong_token_is_refused_everywhere(serve, token):
    serving = serve()
    for path in ("/metrics", "/healthz"):
        assert serving.is_unauthorized(path, token="made.up.token")
        assert serving.is_unauthorized(path, token=token()[:-4] + "AAAA")
    assert serving.status("/healthz", headers={"Authorization": "Basic YTpi"}) == 200, "another scheme is no credential"


def test_kubectl_reads_raw_paths(serve, cluster, token):
    serving = serve()
    def raw(path, bearer, check=True):
        return cluster.kubectl("--kubeconfig=/dev/null", f"--server={serving.url}", f"--certificate-authority={cluster.ca}",
                               f"--token={bearer}", "get", "--raw", path, check=check)

    assert raw("/healthz", token()) == "ok"
    assert "# TYPE" in raw("/metrics", token())
    with pytest.raises(AssertionError, match="Forbidden.*cannot get path"):
        raw("/metrics", token("stranger"))
    with pytest.raises(AssertionError, match="logged in|Unauthorized"):
        raw("/metrics", "made.up.token")


def test_one_review_answers_many_callers(serve, proxy, token):
    serving = serve(authentication_token_webhook_cache_ttl="60s", authorization_webhook_cache_authorized_ttl="60s")
    bearer = token()
    proxy.on("POST", TOKEN_REVIEWS, delay(0.5))
    with ThreadPoolExecutor(8) as pool:  # as many as one address may have waiting
        assert set(pool.map(lambda _: serving.status("/metrics", token=bearer), range(30))) == {200}
    assert len(proxy.requests("POST", TOKEN_REVIEWS)) == 1
    assert len(proxy.requests("POST", RIGHTS_REVIEWS)) == 1


def test_no_token_is_ever_written_down(serve, token):
    serving = serve("-v=4")
    bearer = token()
    assert serving.status("/metrics", token=bearer) == 200
    assert serving.is_unauthorized("/metrics", token="made.up.token")
    assert bearer not in serving.process.text and "made.up.token" not in serving.process.text


# --- certificates --------------------------------------------------------------------------------------------------------


def test_client_certificates(serve, cluster, tmp_path):
    serving = serve()
    assert serving.status("/metrics", pair=cluster.admin_pair) == 200, "system:masters"
    assert serving.refusal("/metrics", pair=cluster.authority.client("joe", "joe")) == forbidden("joe")
    stranger = Authority(tmp_path).client("admin", "kubernetes-admin", ["system:masters"])
    for path in ("/metrics", "/healthz"):
        assert serving.is_unauthorized(path, pair=stranger)
    assert serving.is_unauthorized("/metrics", pair=cluster.authority.server("no-client")), "not for clients"


def test_a_wrong_certificate_beside_a_right_token(serve, cluster, token, tmp_path):
    stranger = Authority(tmp_path).client("admin", "kubernetes-admin", ["system:masters"])
    assert serve().status("/metrics", pair=stranger, token=token()) == 200


def test_authorities_from_files_are_followed(serve, tmp_path):
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new")
    bundle = tmp_path / "bundle.crt"
    bundle.write_bytes(old.certificate.read_bytes())
    serving = serve(client_ca_file=bundle)
    known = old.client("admin", "admin", ["system:masters"])
    unknown = new.client("admin", "admin", ["system:masters"])
    assert serving.status("/metrics", pair=known) == 200
    bundle.write_bytes(new.certificate.read_bytes())
    # a refused certificate has the file read again; otherwise that would take up to a minute
    wait_for(lambda: serving.status("/metrics", pair=unknown) == 200, 20, "the new authority to be noticed")
    assert serving.is_unauthorized("/metrics", pair=known)


# --- the API server in trouble -------------------------------------------------------------------------------------------


@pytest.mark.plain
def test_without_an_api_server_cached_answers_are_used_until_they_expire(serve, proxy, token):
    serving = serve(authentication_token_webhook_cache_ttl="2s", authorization_webhook_cache_authorized_ttl="2s")
    bearer = token()
    begun = time.monotonic()
    assert serving.status("/metrics", token=bearer) == 200
    proxy.refuse()
    # 2 s, and as long again while it cannot be renewed
    wait_for(lambda: serving.is_unauthorized("/metrics", token=bearer), 20, "the last answer to be forgotten")
    assert time.monotonic() - begun > 2
    assert serving.refusal("/metrics") == forbidden(ANONYMOUS)
    assert serving.status("/healthz") == 200
    proxy.accept_again()
    wait_for(lambda: serving.status("/metrics", token=bearer) == 200, what="tokens to be known again")


def test_a_short_fault_of_the_api_server_refuses_no_caller(serve, proxy, token):
    serving = serve()
    proxy.on("POST", TOKEN_REVIEWS, answer(500), times=2)
    proxy.on("POST", RIGHTS_REVIEWS, answer(429), times=1)
    assert serving.status("/metrics", token=token()) == 200


def test_a_review_that_hangs_delays_no_other_caller(serve, proxy, token):
    serving = serve()
    bearer = token()
    held = proxy.on("POST", TOKEN_REVIEWS, silence(), times=None)
    statuses = []
    asker = threading.Thread(target=lambda: statuses.append(serving.status("/metrics", token=bearer, timeout=30)))
    begun = time.monotonic()
    asker.start()
    held.wait_hit()
    asked = time.monotonic()
    assert serving.status("/healthz") == 200 and time.monotonic() - asked < 5
    asker.join()
    assert statuses == [401] and 9 < time.monotonic() - begun < 20


def test_hostile_review_answers_authenticate_no_caller(serve, proxy, token):
    serving = serve()
    user = {"username": "root", "groups": ["system:masters"]}
    for body in ({}, {"kind": "TokenReview"}, {"kind": "TokenReview", "status": {"authenticated": "true", "user": user}},
                 {"kind": "TokenReview", "status": {"authenticated": True}},
                 {"kind": "Pod", "status": {"authenticated": True, "user": user}},
                 {"kind": "TokenReview", "status": {"authenticated": True, "user": {**user, "groups": ["g"] * 100_000}}}):
        proxy.clear()
        rule = proxy.on("POST", TOKEN_REVIEWS, answer(201, body), times=None)
        assert serving.is_unauthorized("/metrics", token=token()), body
        rule.wait_hit()


# --- how it is set up ----------------------------------------------------------------------------------------------------


def test_paths_that_are_always_allowed(serve, proxy):
    serving = serve("--authorization-always-allow-paths=/metrics*,/configz")
    for path in ("/metrics", "/metrics/slis", "/configz"):
        assert serving.status(path) == 200
    assert serving.refusal("/version/x") == forbidden(ANONYMOUS, "/version/x")
    asked = [one.json()["spec"]["nonResourceAttributes"] for one in proxy.requests("POST", RIGHTS_REVIEWS)]
    # /healthz is asked about now, and a role of every cluster allows it
    assert {"path": "/healthz", "verb": "get"} in asked and not any("metrics" in one["path"] for one in asked)


@pytest.mark.plain
def test_no_path_is_always_allowed(serve, proxy):
    serving = serve("--authorization-always-allow-paths=", authorization_webhook_cache_authorized_ttl="2s")
    assert serving.status("/healthz") == 200
    proxy.on("POST", RIGHTS_REVIEWS, answer(403), times=None)
    wait_for(lambda: serving.status("/healthz") == 403, 20, "the cached right to be forgotten")


def test_missing_rights_to_review_are_named(cluster, inventory, serve, token):
    nobody = cluster.kubeconfig("nobody", pair=cluster.authority.client("nobody", "nobody"))
    done = run_ccmd(
        "--cloud-provider=cloudlycke", f"--cloud-config={inventory.path}", f"--kubeconfig={cluster.ccmd_kubeconfig}",
        "--leader-elect=false", f"--secure-port={free_ports(1)[0]}", "--bind-address=127.0.0.1",
        f"--authentication-kubeconfig={nobody}", f"--authorization-kubeconfig={nobody}",
    )
    assert done.returncode > 0 and "extension-apiserver-authentication-reader" in done.stderr
    serving = serve("--authentication-tolerate-lookup-failure", reviewer=nobody)
    assert serving.is_unauthorized("/metrics", token=token())
    serving.process.wait_log("system:auth-delegator")
    assert serving.refusal("/metrics") == forbidden(ANONYMOUS)
    assert serving.status("/healthz") == 200


@pytest.mark.plain
def test_an_idle_server_sends_no_review(serve, proxy):
    serving = serve()
    mark = proxy.mark()
    with pytest.raises(Timeout):
        proxy.wait_request(lambda one: "review" in one.path or "configmaps" in one.path, 3, since=mark)
    assert len(proxy.requests("GET", CONFIG_MAP)) == 1
    assert serving.status("/healthz") == 200
