"""Requests that the Hetzner Cloud API takes: methods, paths, query parameters, bodies, and the status of a good answer.

Only what the simulator offers is here. Whatever is not here is refused: an unknown path with 404, an unknown parameter or
member of a body with 422 invalid_input. (The true API lets some of that pass; a provider has no reason to send it.)
test_sim_openapi.py compares all of it with Hetzner's own document.
"""
from .kinds import Fields, Flag, IdOrName, Labels, ListOf, Number, OneOf, Text, ident, port


class Row:
    """query: the parameters' kinds. body: its kind, or None where there is none; empty_body: may be left out."""

    def __init__(self, status=200, query=None, body=None):
        self.status = status
        self.query = query or {}
        self.body = body


NAME = Text(low=1, high=128)
HOSTNAME = Text(low=1, high=253, pattern=r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
ZONES = ("eu-central", "us-east", "us-west", "ap-southeast")
SERVER_STATUSES = ("running", "initializing", "starting", "stopping", "off", "deleting", "migrating", "rebuilding", "unknown")
ACTION_STATUSES = ("running", "success", "error")

# --- query parameters ----------------------------------------------------------------------------------------------------


def sort_by(*fields):
    return OneOf(*(f"{field}{order}" for field in fields for order in ("", ":asc", ":desc")))


PAGES = {"page": Number(1), "per_page": Number(1)}
BY_NAME = {"name": Text(), **PAGES}
BY_LABEL = {"label_selector": Text(), "sort": sort_by("id", "name", "created"), **BY_NAME}
OF_ACTIONS = {
    "status": OneOf(*ACTION_STATUSES),
    "sort": sort_by("id", "command", "status", "started", "finished"),
    **PAGES,
}

# --- bodies --------------------------------------------------------------------------------------------------------------


def health_check(required=""):
    return Fields({
        "protocol" + required: OneOf("tcp", "http"),
        "port" + required: port(),
        "interval": Number(1),
        "timeout": Number(1),
        "retries": Number(1),
        "http": Fields(domain=Text(nullable=True), path=Text(), response=Text(), status_codes=ListOf(Text(low=1)),
                       tls=Flag()),
    })


def service(required=""):
    return Fields({
        "protocol" + required: OneOf("tcp", "http", "https"),
        "listen_port!": port(),
        "destination_port": port(),
        "proxyprotocol": Flag(),
        "http": Fields(cookie_name=Text(low=1), cookie_lifetime=Number(0), certificates=ListOf(ident()),
                       redirect_http=Flag(), sticky_sessions=Flag(), timeout_idle=Number(5, 3600)),
        "health_check": health_check(required),
    })


def target(**more):
    return Fields({
        "type!": OneOf("server", "ip", "label_selector"),
        "server": Fields({"id!": ident()}),
        "ip": Fields({"ip!": Text(low=1)}),
        "label_selector": Fields({"selector!": Text(low=1)}),
        **more,
    })


TARGET = target(use_private_ip=Flag())
SUBNET = Fields({"type!": OneOf("cloud", "server", "vswitch"), "network_zone!": OneOf(*ZONES), "ip_range": Text(),
                 "vswitch_id": ident(), "gateway": Text(nullable=True)})
ROUTE = Fields({"destination!": Text(), "gateway!": Text()})
ALGORITHM = Fields({"type!": OneOf("round_robin", "least_connections")})
NETWORK_ONLY = Fields({"network!": ident()})
PROTECT = Fields(delete=Flag())
DNS_PTR = Fields({"ip!": Text(low=1), "dns_ptr!": Text(nullable=True)})

SERVER_CREATE = Fields({
    "name!": HOSTNAME,
    "server_type!": IdOrName(),
    "image!": IdOrName(),
    "location": IdOrName(),
    "datacenter": IdOrName(),
    "start_after_create": Flag(),
    "labels": Labels(),
    "user_data": Text(high=32 << 10),
    "networks": ListOf(ident()),
    "public_net": Fields(enable_ipv4=Flag(), enable_ipv6=Flag(), ipv4=ident(nullable=True), ipv6=ident(nullable=True)),
    "ssh_keys": ListOf(IdOrName()),
    "volumes": ListOf(ident()),
    "automount": Flag(),
    "firewalls": ListOf(Fields({"firewall!": ident()})),
    "placement_group": ident(),
})

BALANCER_CREATE = Fields({
    "name!": NAME,
    "load_balancer_type!": IdOrName(),
    "algorithm": ALGORITHM,
    "location": IdOrName(),
    "network_zone": OneOf(*ZONES),
    "labels": Labels(),
    "network": ident(),
    "public_interface": Flag(),
    "public_net": Fields(ipv4=ident(nullable=True), ipv6=ident(nullable=True)),
    "services": ListOf(service("!")),
    "targets": ListOf(TARGET),
})

PRIMARY_IP_CREATE = Fields({
    "name!": NAME,
    "type!": OneOf("ipv4", "ipv6"),
    "assignee_type": OneOf("server", "load_balancer"),
    "location": IdOrName(),
    "auto_delete": Flag(),
    "labels": Labels(),
})

# --- all of it -----------------------------------------------------------------------------------------------------------

SERVER, NETWORK, BALANCER, CERTIFICATE = "/servers/{id}", "/networks/{id}", "/load_balancers/{id}", "/certificates/{id}"
PRIMARY_IP = "/primary_ips/{id}"

ROWS = {
    ("GET", "/locations"): Row(query={"sort": sort_by("id", "name"), **BY_NAME}),
    ("GET", "/locations/{id}"): Row(),
    ("GET", "/datacenters"): Row(query={"sort": sort_by("id", "name"), **BY_NAME}),
    ("GET", "/datacenters/{id}"): Row(),
    ("GET", "/server_types"): Row(query=BY_NAME),
    ("GET", "/server_types/{id}"): Row(),
    ("GET", "/load_balancer_types"): Row(query=BY_NAME),
    ("GET", "/load_balancer_types/{id}"): Row(),
    ("GET", "/images"): Row(query={
        "type": OneOf("system", "app", "snapshot", "backup"), "status": OneOf("available", "creating", "unavailable"),
        "bound_to": Text(), "include_deprecated": OneOf("true", "false"), "architecture": OneOf("x86", "arm"), **BY_LABEL}),
    ("GET", "/images/{id}"): Row(),
    ("GET", "/ssh_keys"): Row(query={"fingerprint": Text(), **BY_LABEL, "sort": sort_by("id", "name")}),
    ("GET", "/actions"): Row(query={"id": Number(1), **OF_ACTIONS}),
    ("GET", "/actions/{id}"): Row(),
    # servers
    ("GET", "/servers"): Row(query={"status": OneOf(*SERVER_STATUSES), **BY_LABEL}),
    ("POST", "/servers"): Row(201, body=SERVER_CREATE),
    ("GET", SERVER): Row(),
    ("PUT", SERVER): Row(body=Fields(name=HOSTNAME, labels=Labels())),
    ("DELETE", SERVER): Row(),
    **{("POST", f"{SERVER}/actions/{power}"): Row(201)
       for power in ("poweron", "poweroff", "shutdown", "reboot", "reset")},
    ("POST", f"{SERVER}/actions/attach_to_network"): Row(201, body=Fields(
        {"network!": ident(), "ip": Text(), "ip_range": Text(), "alias_ips": ListOf(Text())})),
    ("POST", f"{SERVER}/actions/detach_from_network"): Row(201, body=NETWORK_ONLY),
    ("POST", f"{SERVER}/actions/change_alias_ips"): Row(201, body=Fields(
        {"network!": ident(), "alias_ips!": ListOf(Text())})),
    ("POST", f"{SERVER}/actions/change_protection"): Row(201, body=Fields(delete=Flag(), rebuild=Flag())),
    # networks
    ("GET", "/networks"): Row(query=BY_LABEL),
    ("POST", "/networks"): Row(201, body=Fields({
        "name!": NAME, "ip_range!": Text(), "labels": Labels(), "subnets": ListOf(SUBNET), "routes": ListOf(ROUTE),
        "expose_routes_to_vswitch": Flag()})),
    ("GET", NETWORK): Row(),
    ("PUT", NETWORK): Row(body=Fields(name=NAME, labels=Labels(), expose_routes_to_vswitch=Flag())),
    ("DELETE", NETWORK): Row(204),
    ("POST", f"{NETWORK}/actions/add_subnet"): Row(201, body=SUBNET),
    ("POST", f"{NETWORK}/actions/delete_subnet"): Row(201, body=Fields({"ip_range!": Text()})),
    ("POST", f"{NETWORK}/actions/add_route"): Row(201, body=ROUTE),
    ("POST", f"{NETWORK}/actions/delete_route"): Row(201, body=ROUTE),
    ("POST", f"{NETWORK}/actions/change_ip_range"): Row(201, body=Fields({"ip_range!": Text()})),
    ("POST", f"{NETWORK}/actions/change_protection"): Row(201, body=PROTECT),
    # load balancers
    ("GET", "/load_balancers"): Row(query=BY_LABEL),
    ("POST", "/load_balancers"): Row(201, body=BALANCER_CREATE),
    ("GET", BALANCER): Row(),
    ("PUT", BALANCER): Row(body=Fields(name=NAME, labels=Labels())),
    ("DELETE", BALANCER): Row(201),  # 204 until October 2026, see HCloud.deletion_acts
    ("POST", f"{BALANCER}/actions/add_service"): Row(201, body=service("!")),
    ("POST", f"{BALANCER}/actions/update_service"): Row(201, body=service()),
    ("POST", f"{BALANCER}/actions/delete_service"): Row(201, body=Fields({"listen_port!": port()})),
    ("POST", f"{BALANCER}/actions/add_target"): Row(201, body=TARGET),
    ("POST", f"{BALANCER}/actions/remove_target"): Row(201, body=target()),
    ("POST", f"{BALANCER}/actions/change_algorithm"): Row(201, body=ALGORITHM),
    ("POST", f"{BALANCER}/actions/change_type"): Row(201, body=Fields({"load_balancer_type!": IdOrName()})),
    ("POST", f"{BALANCER}/actions/change_dns_ptr"): Row(201, body=DNS_PTR),
    ("POST", f"{BALANCER}/actions/change_protection"): Row(201, body=PROTECT),
    ("POST", f"{BALANCER}/actions/attach_to_network"): Row(201, body=Fields(
        {"network!": ident(), "ip": Text(), "ip_range": Text()})),
    ("POST", f"{BALANCER}/actions/detach_from_network"): Row(201, body=NETWORK_ONLY),
    ("POST", f"{BALANCER}/actions/enable_public_interface"): Row(201),
    ("POST", f"{BALANCER}/actions/disable_public_interface"): Row(201),
    # certificates
    ("GET", "/certificates"): Row(query={"type": OneOf("uploaded", "managed"), **BY_LABEL}),
    ("POST", "/certificates"): Row(201, body=Fields({
        "name!": NAME, "type": OneOf("uploaded", "managed"), "certificate": Text(), "private_key": Text(),
        "domain_names": ListOf(Text(low=1)), "labels": Labels()})),
    ("GET", CERTIFICATE): Row(),
    ("PUT", CERTIFICATE): Row(body=Fields(name=NAME, labels=Labels())),
    ("DELETE", CERTIFICATE): Row(204),
    # Primary IPs
    ("GET", "/primary_ips"): Row(query={"ip": Text(), **BY_LABEL, "sort": sort_by("id", "created")}),
    ("POST", "/primary_ips"): Row(201, body=PRIMARY_IP_CREATE),
    ("GET", PRIMARY_IP): Row(),
    ("PUT", PRIMARY_IP): Row(body=Fields(name=NAME, labels=Labels(), auto_delete=Flag())),
    ("DELETE", PRIMARY_IP): Row(204),
    ("POST", f"{PRIMARY_IP}/actions/change_protection"): Row(201, body=Fields({"delete!": Flag()})),
}

# each kind of resource that can be changed also has paths for its actions
for _plural in ("servers", "networks", "load_balancers", "certificates", "primary_ips"):
    ROWS["GET", f"/{_plural}/actions"] = Row(query={"id": Number(1), **OF_ACTIONS})
    ROWS["GET", f"/{_plural}/actions/{{id}}"] = Row()
    ROWS["GET", f"/{_plural}/{{id}}/actions"] = Row(query=OF_ACTIONS)
    ROWS["GET", f"/{_plural}/{{id}}/actions/{{action_id}}"] = Row()
