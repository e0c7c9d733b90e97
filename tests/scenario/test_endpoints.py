"""The HTTPS server's answers: health, configuration, version."""

from lib.ccmd import machine, run_ccmd
from lib.nodes import is_initialized
from lib.wait import wait_for


def ready(anonymous):
    wait_for(lambda: anonymous.get("/readyz").status == 200, what="it to be ready", seen=lambda: anonymous.get("/readyz").text)


def test_probes_need_no_credentials(api, served):
    _, _, anonymous = served()
    ready(anonymous)
    for path in ("/healthz", "/livez", "/readyz"):
        response = anonymous.get(path)
        assert (response.status, response.text) == (200, "ok")
        assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Cache-Control"] == "no-cache, private"
        verbose = anonymous.get(f"{path}?verbose").text
        assert verbose.endswith(f"\n{path[1:]} check passed\n") and verbose.startswith("[+]")
    assert "warn: some health checks cannot be excluded: no matches for \"x\"" in anonymous.get("/livez?verbose&exclude=x").text
    assert "[+]progress excluded: ok" in anonymous.get("/livez?verbose&exclude=progress").text


def test_one_check_has_a_path(api, served):
    _, admin, anonymous = served()
    ready(anonymous)
    assert (admin.get("/livez/progress").status, admin.get("/livez/progress").text) == (200, "ok")
    assert admin.get("/livez/nothing").status == 404
    assert anonymous.get("/livez/progress").status == 403


def test_health_as_metrics(api, served):
    _, admin, anonymous = served()
    ready(anonymous)
    anonymous.get("/livez")
    assert 'kubernetes_healthcheck{name="progress",type="livez"} 1' in admin.get("/metrics/slis").text
    assert admin.request("DELETE", "/metrics/slis").status == 200
    assert 'type="livez"' not in admin.get("/metrics/slis").text
    assert "kubernetes_healthcheck" not in admin.get("/metrics").text


def test_version_and_configuration(api, served):
    _, admin, _ = served()
    version = admin.get("/version").json
    assert version["gitVersion"].lstrip("v") in run_ccmd("--version").stdout and version["platform"].startswith("linux/")
    shown = admin.get("/configz").json["cloudcontrollermanager.config.k8s.io"]
    assert shown["kind"] == "CloudControllerManagerConfiguration"
    assert shown["NodeController"]["ConcurrentNodeSyncs"] == 8, "what is in effect, though it was left to the program"
    assert shown["ServiceController"]["ConcurrentServiceSyncs"] == 20


def test_another_version_can_be_reported(proxy, served):
    """--version=vX.Y.Z, as operators use it who run builds of their own."""
    one, admin, _ = served("--version=v9.8.7-rc.1")
    version = admin.get("/version").json
    assert (version["gitVersion"], version["major"], version["minor"]) == ("v9.8.7-rc.1", "9", "8")
    metrics = admin.get("/metrics").text
    assert ',git_version="v9.8.7-rc.1",go_version="",major="9",minor="8",platform="linux/' in metrics
    assert ',version="9.8.7-rc.1"} 1' in metrics
    assert "version=9.8.7-rc.1" in one.text.split("ccmd starts")[1].splitlines()[0]
    assert all(request.headers["user-agent"].startswith("ccmd/9.8.7 (") for request in proxy.requests()), "no suffix"


def test_the_log_level_can_be_raised(api, inventory, kubelet, served):
    one, admin, _ = served()
    response = admin.request("PUT", "/debug/flags/v", body="4")
    assert (response.status, response.text) == (200, "successfully set klog.logging.verbosity to 4")
    inventory.add(machine("n1", "10.0.0.1"))
    kubelet("n1")
    api.wait_node("n1", is_initialized)
    one.wait_log(r"debug http .*PATCH")


def test_without_profiling_the_log_level_is_fixed(api, served):
    _, admin, _ = served(profiling=False)
    assert admin.request("PUT", "/debug/flags/v", body="4").status == 404


def test_callers_without_rights_learn_nothing(api, served):
    _, admin, anonymous = served()
    assert (admin.get("/nothing").status, admin.get("/nothing").text) == (404, "404 page not found\n")
    assert admin.request("POST", "/metrics").status == 405
    for path in ("/metrics", "/configz", "/nothing"):
        response = anonymous.get(path)
        assert response.status == 403 and response.json["kind"] == "Status" and response.json["reason"] == "Forbidden"


def test_liveness_does_not_depend_on_the_api_server(api, inventory, proxy, served):
    """A liveness probe that failed then would only add restarts to an outage."""
    _, _, anonymous = served()
    ready(anonymous)
    proxy.refuse()
    proxy.cut_all()
    wait_for(lambda: anonymous.get("/livez").status == 200, what="livez")
    assert (anonymous.get("/livez").text, anonymous.get("/readyz").text) == ("ok", "ok")
    proxy.accept_again()
