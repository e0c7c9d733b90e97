"""Services with a load balancer, on every version of the API server that `--all` knows."""
import re

from lib.ccmd import machine
from lib.faultproxy import answer
from lib.wait import wait_for

POOL = {"name": "lab", "addresses": ["192.0.2.10-192.0.2.12"]}


def test_a_status_is_written_once(services, inventory, kubelet, settled, ccmd):
    """1.28 has no ipMode and drops it: what it does not say must not be written again, at no sync and no restart."""
    inventory.content["addressPools"] = [POOL]
    inventory.content["loadBalancers"] = {}
    inventory.add(machine("n1", "10.0.0.1"))
    one = ccmd()
    services.create("web")
    services.wait_ips("web")
    services.wait_event("web", "EnsuredLoadBalancer")
    written = services.get("web")["metadata"]["resourceVersion"]
    kubelet("n1", ip="10.0.0.1")
    services.wait_event("web", "UpdatedLoadBalancer")
    settled()
    one.stop()
    two = ccmd()
    two.wait_log("objects listed kind=Service")
    settled()
    two.stop()
    assert services.get("web")["metadata"]["resourceVersion"] == written


def test_a_status_that_was_not_written_is_not_logged(services, inventory, settled, proxy, ccmd):
    """The Service is deleted meanwhile, so the API server does not find it."""
    inventory.content["addressPools"] = [POOL]
    inventory.content["loadBalancers"] = {}
    inventory.write()
    refused = proxy.on("PATCH", "/services/web/status", answer(404), times=None,
                       when=lambda request: b"ingress" in request.body)
    one = ccmd()
    services.create("web")
    wait_for(lambda: refused.hits, what="the patch")
    services.create("other")
    services.wait_ips("other")
    settled()
    written = re.findall(r"service status written.*service=(\S+)", one.text)
    assert written == ["default/other"]
