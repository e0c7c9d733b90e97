"""Requests that the Brightbox API takes: methods, paths, bodies, and the status of a good answer.

Only what the simulator offers is here. An unknown path is answered with 404, and an unknown member of
a body with 422: a provider has no reason to send one, even where the true API ignores it. The statuses
are those that Brightbox's own clients insist on.
"""
from ..kinds import Fields, Flag, ListOf, Number, OneOf, Text, port


class Row:
    """body: its kind, or None where there is none. made: the answer has a Location header."""

    def __init__(self, status=200, body=None, made=False):
        self.status = status
        self.body = body
        self.made = made


def ident(*codes):
    return Text(pattern=rf"(?:{'|'.join(codes)})-[0-9a-z]{{5,}}")


NAME = Text(high=255, nullable=True)
POLICIES = ("least-connections", "round-robin", "source-address")
PROXY_PROTOCOLS = ("v1", "v2", "v2-ssl", "v2-ssl-cn")


def optional(*values):
    kind = OneOf(*values)
    kind.nullable = True
    return kind


LISTENER = Fields({
    "protocol!": OneOf("tcp", "http", "https"),
    "in!": port(),
    "out!": port(),
    "timeout": Number(5000, 86400000),
    "proxy_protocol": optional(*PROXY_PROTOCOLS),
})


def balancer(required=""):
    """All members of a balancer are optional in a PUT, which changes only those that it names."""
    return Fields({
        "name": NAME,
        "nodes": ListOf(Fields({"node!": ident("srv")}), nullable=True),
        "policy": OneOf(*POLICIES),
        "listeners" + required: ListOf(LISTENER),
        "healthcheck" + required: Fields({
            "type!": OneOf("tcp", "http"),
            "port!": port(),
            "request": Text(low=1),
            "interval": Number(1),
            "timeout": Number(1),
            "threshold_up": Number(1),
            "threshold_down": Number(1),
        }),
        "domains": ListOf(Text(low=1, high=253), nullable=True),
        "https_redirect": Flag(),
        "buffer_size": Number(1024, 16384),
        "ssl_minimum_version": Text(nullable=True),
        "certificate_pem": Text(nullable=True),
        "certificate_private_key": Text(nullable=True),
    })


MEMBERS = Fields({"servers!": ListOf(Fields({"server!": ident("srv")}))})
GROUP = Fields(name=NAME, description=Text(nullable=True))
POLICY = Fields(name=NAME, description=Text(nullable=True), server_group=ident("grp"))
PORTS = Text(pattern=r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?){0,14}", nullable=True)


def rule(required=""):
    return Fields({
        "firewall_policy" + required: ident("fwp"),
        "protocol": Text(nullable=True),
        "source": Text(nullable=True),
        "source_port": PORTS,
        "destination": Text(nullable=True),
        "destination_port": PORTS,
        "icmp_type_name": Text(nullable=True),
        "description": Text(nullable=True),
    })


ROWS = {
    ("GET", "accounts"): Row(),
    ("GET", "account"): Row(),
    ("GET", "server_types"): Row(),
    ("GET", "server_types/{id}"): Row(),
    ("GET", "zones"): Row(),
    ("GET", "zones/{id}"): Row(),
    # servers
    ("GET", "servers"): Row(),
    ("GET", "servers/{id}"): Row(),
    ("DELETE", "servers/{id}"): Row(202),
    **{("POST", f"servers/{{id}}/{power}"): Row(202) for power in ("start", "stop", "shutdown", "reboot", "reset")},
    # load balancers
    ("GET", "load_balancers"): Row(),
    ("GET", "load_balancers/{id}"): Row(),
    ("POST", "load_balancers"): Row(202, balancer("!"), made=True),
    ("PUT", "load_balancers/{id}"): Row(202, balancer()),
    ("DELETE", "load_balancers/{id}"): Row(202),
    # cloud IPs
    ("GET", "cloud_ips"): Row(),
    ("GET", "cloud_ips/{id}"): Row(),
    ("POST", "cloud_ips"): Row(201, Fields(name=NAME, reverse_dns=Text(nullable=True), mode=OneOf("nat", "route")),
                               made=True),
    ("PUT", "cloud_ips/{id}"): Row(200, Fields(name=NAME, reverse_dns=Text(nullable=True))),
    ("POST", "cloud_ips/{id}/map"): Row(202, Fields({"destination!": ident("lba", "int", "grp", "dbs")})),
    ("POST", "cloud_ips/{id}/unmap"): Row(202),
    ("DELETE", "cloud_ips/{id}"): Row(200),
    # server groups
    ("GET", "server_groups"): Row(),
    ("GET", "server_groups/{id}"): Row(),
    ("POST", "server_groups"): Row(202, GROUP, made=True),
    ("POST", "server_groups/{id}/add_servers"): Row(202, MEMBERS),
    ("POST", "server_groups/{id}/remove_servers"): Row(202, MEMBERS),
    ("DELETE", "server_groups/{id}"): Row(202),
    # firewall
    ("GET", "firewall_policies"): Row(),
    ("GET", "firewall_policies/{id}"): Row(),
    ("POST", "firewall_policies"): Row(201, POLICY, made=True),
    ("PUT", "firewall_policies/{id}"): Row(202, Fields(name=NAME, description=Text(nullable=True))),
    ("POST", "firewall_policies/{id}/apply_to"): Row(202, Fields({"server_group!": ident("grp")})),
    ("DELETE", "firewall_policies/{id}"): Row(202),
    ("GET", "firewall_rules/{id}"): Row(),
    ("POST", "firewall_rules"): Row(202, rule("!"), made=True),
    ("PUT", "firewall_rules/{id}"): Row(202, rule()),
    ("DELETE", "firewall_rules/{id}"): Row(202),
}
