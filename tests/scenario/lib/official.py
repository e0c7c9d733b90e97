"""What the official controllers leave behind."""
from .services import FINALIZER

PREFIX = "load-balancer.hetzner.cloud/"
LABEL = "hcloud-ccm/service-uid"


def wish(**annotations):
    return {PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}


def default_name(service):
    return ("a" + service["metadata"]["uid"].replace("-", ""))[:32]


def node_port(service, port):
    return next(one["nodePort"] for one in service["spec"]["ports"] if one["port"] == port)


def leave_balancers(services, cloud, network, servers):
    """Two Services with their balancers at Hetzner: one without any options, and one with a network and http. Both are
    complete. Returns [(the name of the Service, its addresses)]."""
    plain = services.create("plain", 80)
    rich = services.create("rich", 80, annotations=wish(
        name="rich-lb", type="lb21", location="hel1", use_private_ip="true", protocol="http", http_sticky_sessions="true",
        health_check_protocol="http", health_check_http_path="/up", algorithm_type="least_connections",
        disable_public_network="false", uses_proxyprotocol="false"))
    left = []
    for service, name, private_ip, more in (
        (plain, default_name(plain), False, {}),
        (rich, "rich-lb", True, {"protocol": "http", "http": {"sticky_sessions": True},
                                 "health_check": {"protocol": "http", "http": {"path": "/up"}}}),
    ):
        port = node_port(service, 80)
        body = {"protocol": "tcp", "listen_port": 80, "destination_port": port, "health_check": {"protocol": "tcp"}, **more}
        body["health_check"]["port"] = port
        lb = cloud.add_load_balancer(
            name, type="lb21" if private_ip else "lb11", location="hel1" if private_ip else "fsn1", network=network,
            labels={LABEL: service["metadata"]["uid"]}, services=[body],
            targets=[{"type": "server", "server": {"id": one.id}, "use_private_ip": private_ip} for one in reversed(servers)])
        lb.algorithm = "least_connections" if private_ip else "round_robin"
        addresses = [lb.ipv4, lb.ipv6, lb.private_net[0]["ip"]]
        left.append((service["metadata"]["name"], addresses))
        services.patch(service["metadata"]["name"], {"metadata": {"finalizers": [FINALIZER]}})
        services.api.patch(f"/api/v1/namespaces/default/services/{service['metadata']['name']}/status", {"status": {
            "loadBalancer": {"ingress": [{"ip": ip, "ipMode": "VIP"} for ip in addresses]}}})
    return left
