"""Load balancers."""
import copy
import ipaddress

from . import lists, primary_ips, selector
from .catalog import find
from .networks import parsed_ip
from .project import ApiError, Resource, refused
from .routing import serves
from .servers import known, network_of

HTTP_DEFAULTS = {"cookie_name": "HCLBSTICKY", "cookie_lifetime": 300, "certificates": [], "redirect_http": False,
                 "sticky_sessions": False, "timeout_idle": 60}
CHECK_DEFAULTS = {"protocol": "tcp", "interval": 15, "timeout": 10, "retries": 3}
CHECK_HTTP_DEFAULTS = {"domain": "", "path": "/", "response": "", "status_codes": ["2??", "3??"], "tls": False}


class Balancer(Resource):
    kind = "load_balancer"

    def __init__(self, project, name, balancer_type, location, labels=None, algorithm="round_robin", public=True):
        super().__init__(project, name, labels)
        self.type = balancer_type
        self.location = location
        self.algorithm = algorithm
        self.public = public
        self.ipv4 = self.ipv6 = None
        self.dns_ptr = {}
        self.services = []
        self.targets = []
        self.private_net = []
        self.public_ids = {}  # of its addresses: "ipv4", "ipv6"
        self.primary_ips = {}  # those of them that exist on their own
        self.health = "healthy"  # what its health checks say
        self.failing = {}  # of a target (the server's ID, or the IP): (detail, http_status_code)

    def json(self):
        return {
            **self.common(), "location": self.location, "load_balancer_type": self.type,
            "algorithm": {"type": self.algorithm}, "protection": dict(self.protection),
            "public_net": {"enabled": self.public, "ipv4": self._end("ipv4", self.ipv4),
                           "ipv6": self._end("ipv6", self.ipv6)},
            "private_net": [dict(one) for one in self.private_net], "services": copy.deepcopy(self.services),
            "targets": [self._target_json(one) for one in self.targets],
            "included_traffic": 20 << 40, "outgoing_traffic": 0, "ingoing_traffic": 0,
        }

    def _target_json(self, target):
        body = copy.deepcopy(target)
        if target["type"] != "label_selector":
            body["health_status"] = self._health(target.get("server", {}).get("id") or target.get("ip", {}).get("ip"))
            return body
        matches = selector.parse(target["label_selector"]["selector"])
        body["targets"] = [
            {"type": "server", "server": {"id": one.id}, "health_status": self._health(one.id),
             "use_private_ip": target["use_private_ip"]}
            for one in self.project.servers.values() if matches(one.labels)
        ]
        return body

    def _end(self, kind, ip):
        end = {"ip": ip, "dns_ptr": self.dns_ptr.get(ip)}
        if not self.project.cloud.takes_primary_ips:
            return end
        primary = self.primary_ips.get(kind)
        return {**end, "id": self.public_ids.get(kind), "blocked": bool(primary and primary.blocked)}

    def _health(self, target):
        is_failing = target in self.failing
        status = {"status": "unhealthy" if is_failing else self.health}
        if self.project.cloud.explains_health:
            detail, code = self.failing.get(target, (None, None))
            status.update(detail=detail, http_status_code=code)
        return [{"listen_port": one["listen_port"], **status} for one in self.services]

    @property
    def network_ids(self):
        return [one["network"] for one in self.private_net]

    def has_server(self, server_id):
        return {"id": server_id} in [one.get("server") for one in self.targets]

    def service(self, listen_port):
        return next((one for one in self.services if one["listen_port"] == listen_port), None)

    def get_addresses(self):
        self.ipv4, v6 = self.project.public_pair()
        self.ipv6 = str(ipaddress.ip_network(v6)[1])
        self.public_ids = {kind: self.project.cloud.next_id() for kind in ("ipv4", "ipv6")}
        for kind, primary in self.primary_ips.items():
            self.public_ids[kind] = primary.id
            setattr(self, kind, primary.address)

    # --- what changes it ---------------------------------------------------------------------------------------------

    def leave(self, network_id):
        """Its targets in that network go as well."""
        if network_id in self.network_ids:
            self.private_net = [one for one in self.private_net if one["network"] != network_id]
            self.targets = [one for one in self.targets if not one.get("use_private_ip")]

    def drop_private_target(self, server_id):
        self.targets = [one for one in self.targets
                        if not (one.get("server") == {"id": server_id} and one["use_private_ip"])]

    def drop_target(self, wanted):
        kind = wanted["type"]
        self.targets = [one for one in self.targets if one["type"] != kind or one[kind] != wanted[kind]]

    # --- services ----------------------------------------------------------------------------------------------------

    def new_service(self, body, others):
        """What is stored for this body, or a refusal. others are the services it comes to stand beside."""
        if body["listen_port"] in [one["listen_port"] for one in others]:
            raise ApiError("source_port_already_used", f"the port {body['listen_port']} is already used")
        if len(others) >= self.type["max_services"]:
            raise ApiError("resource_limit_exceeded", f"{self.type['name']} can have {self.type['max_services']} services")
        protocol = body["protocol"]
        if "destination_port" not in body and protocol == "tcp":
            raise refused("destination_port", "is required for protocol tcp")
        port = body.get("destination_port", 80)
        service = {"protocol": protocol, "listen_port": body["listen_port"], "destination_port": port,
                   "proxyprotocol": body.get("proxyprotocol", False), "health_check": {}, "http": {}}
        return self.merged(service, body)

    def merged(self, service, body):
        """The service with what the body says, defaults filled in, checked as a whole."""
        result = copy.deepcopy(service)
        result.update({key: body[key] for key in ("protocol", "destination_port", "proxyprotocol") if key in body})
        result["http"] = {**HTTP_DEFAULTS, **result.get("http", {}), **body.get("http", {})}
        result["health_check"] = _merged_check(result, body.get("health_check", {}))
        self._check_http(result, body.get("http"))
        if result["protocol"] == "tcp":
            del result["http"]
        return result

    def _check_http(self, service, asked):
        http, protocol = service["http"], service["protocol"]
        for ident in http["certificates"]:
            if ident not in self.project.certificates:
                raise refused("http.certificates", f"certificate with ID {ident} not found")
        if protocol == "https" and not http["certificates"]:
            raise refused("http.certificates", "at least one certificate is required for protocol https")
        if len(http["certificates"]) > self.type["max_assigned_certificates"]:
            raise ApiError("resource_limit_exceeded", "too many certificates for this load balancer type")
        if asked and http["redirect_http"] and protocol != "https":
            raise refused("http.redirect_http", "is only possible with protocol https")
        if asked and http["sticky_sessions"] and protocol == "tcp":
            raise refused("http.sticky_sessions", "is not possible with protocol tcp")

    # --- targets -----------------------------------------------------------------------------------------------------

    def new_target(self, body, others, network_ids, public):
        """What is stored for this body, or a refusal; network_ids and public are what the balancer has or will have."""
        kind = body["type"]
        if kind not in body:
            raise refused(kind, f"is required for targets of type {kind}")
        for other in {"server", "ip", "label_selector"} - {kind}:
            if other in body:
                raise refused(other, f"is not possible for targets of type {kind}")
        if any(one["type"] == kind and one[kind] == body[kind] for one in others):
            raise ApiError("target_already_defined", "target is already defined")
        if len(others) >= self.type["max_targets"]:
            raise ApiError("resource_limit_exceeded", f"{self.type['name']} can have {self.type['max_targets']} targets")
        private = body.get("use_private_ip", False)
        if private and not network_ids:
            raise ApiError("load_balancer_not_attached_to_network", "load balancer is not attached to a network")
        if not private and not public and kind != "ip":
            raise ApiError("load_balancer_public_interface_disabled", "the public interface is disabled")
        checks = {"server": self._check_server, "ip": self._check_ip, "label_selector": self._check_selector}
        checks[kind](body, private, network_ids)
        target = {"type": kind, kind: dict(body[kind])}
        if kind != "ip":
            target["use_private_ip"] = private
        return target

    def _check_server(self, body, private, network_ids):
        ident = body["server"]["id"]
        server = self.project.servers.get(ident)
        if server is None:
            raise refused("server", f"server with ID {ident} not found")
        if private and not any(server.private_ip(one) for one in network_ids):
            raise ApiError("server_not_attached_to_network", f"server {ident} is not attached to the network")
        if not private and server.ipv4 is None:
            raise ApiError("missing_ipv4", f"server {ident} has no public IPv4")

    def _check_ip(self, body, private, network_ids):
        address = str(parsed_ip(body["ip"]["ip"], "ip.ip"))
        if "use_private_ip" in body and private:
            raise refused("use_private_ip", "is not possible for targets of type ip")
        if address in self.project.cloud_addresses():
            raise ApiError("cloud_resource_ip_not_allowed", f"{address} belongs to a cloud resource")
        if address not in self.project.robot_ips:
            raise ApiError("ip_not_owned", f"{address} is not yours")

    def _check_selector(self, body, private, network_ids):
        try:
            selector.parse(body["label_selector"]["selector"])
        except ValueError as problem:
            raise refused("label_selector.selector", str(problem)) from None


def _merged_check(service, asked):
    old = service["health_check"]
    result = {**CHECK_DEFAULTS, "port": service["destination_port"], **old,
              **{key: value for key, value in asked.items() if key != "http"}}
    if result["protocol"] == "http":
        result["http"] = {**CHECK_HTTP_DEFAULTS, **old.get("http", {}), **asked.get("http", {})}
    elif "http" in asked:
        raise refused("health_check.http", "is not possible with protocol tcp")
    else:
        result.pop("http", None)
    return result


# --- create, read, update, delete ----------------------------------------------------------------------------------------


@serves("GET", "/load_balancers")
def index(project, call):
    return lists.page_of(call, "load_balancers", project.load_balancers.values(), Balancer.json)


@serves("POST", "/load_balancers")
def create(project, call):
    body = call.body
    project.check_unique("load_balancers", body["name"])
    balancer = Balancer(project, body["name"], _type(project, body), _location(project, body), body.get("labels"),
                        body.get("algorithm", {}).get("type", "round_robin"), body.get("public_interface", True))
    balancer.primary_ips = primary_ips.wanted_by(project, body, balancer.location)
    private_net = _first_network(project, balancer, body)
    for one in body.get("services", []):
        balancer.services.append(balancer.new_service(one, balancer.services))
    for one in body.get("targets", []):
        networks = [entry["network"] for entry in private_net]
        balancer.targets.append(balancer.new_target(one, balancer.targets, networks, balancer.public))
    balancer.private_net = private_net
    project.load_balancers[balancer.id] = balancer
    for primary in balancer.primary_ips.values():
        primary.assign(balancer)
    action = project.act(call, "create_load_balancer", [balancer], balancer.get_addresses)
    return {"load_balancer": balancer.json(), "action": call.render(action)}


def _type(project, body):
    found = known(project.cloud.load_balancer_types, "load_balancer_type", body["load_balancer_type"])
    if found["deprecation"] and found["deprecation"]["unavailable_after"] < project.cloud.now_text():
        raise refused("load_balancer_type", f"{found['name']} is unavailable")
    return found


def _location(project, body):
    if ("location" in body) == ("network_zone" in body):
        raise refused("location", "exactly one of location and network_zone is required")
    if "location" in body:
        return known(project.cloud.locations, "location", body["location"])
    return next(one for one in project.cloud.locations if one["network_zone"] == body["network_zone"])


def _first_network(project, balancer, body):
    if "network" not in body:
        return []
    network = network_of(project, body["network"])
    return [{"network": network.id, "ip": network.free_ip(balancer.location["network_zone"])}]


@serves("GET", "/load_balancers/{id}")
def show(project, call):
    return {"load_balancer": project.get("load_balancers", call.id).json()}


@serves("PUT", "/load_balancers/{id}")
def update(project, call):
    balancer = project.get("load_balancers", call.id)
    if project.busy(balancer):
        raise ApiError("conflict", "the resource was changed during processing, please retry")
    if "name" in call.body:
        project.check_unique("load_balancers", call.body["name"], but=balancer)
        balancer.name = call.body["name"]
    balancer.labels = dict(call.body.get("labels", balancer.labels))
    return {"load_balancer": balancer.json()}


@serves("DELETE", "/load_balancers/{id}")
def delete(project, call):
    balancer = project.get("load_balancers", call.id)
    if balancer.protection["delete"]:
        raise ApiError("protected", "load balancer deletion is protected")
    project.check_free(balancer)

    def gone():
        del project.load_balancers[balancer.id]
        for primary in balancer.primary_ips.values():
            primary.release()

    if not project.cloud.deletion_acts:
        gone()
        call.status = 204
        return None
    return {"action": call.render(project.act(call, "delete_load_balancer", [balancer], gone))}


# --- actions -------------------------------------------------------------------------------------------------------------


def _change(project, call, command, check):
    """check(balancer) looks at what is asked and returns what does it."""
    balancer = project.get("load_balancers", call.id)
    project.check_free(balancer)
    effect = check(balancer)
    return {"action": call.render(project.act(call, command, [balancer], effect))}


@serves("POST", "/load_balancers/{id}/actions/add_service")
def add_service(project, call):
    def check(balancer):
        service = balancer.new_service(call.body, balancer.services)
        return lambda: balancer.services.append(service)

    return _change(project, call, "add_service", check)


def _service_or_refuse(balancer, listen_port):
    service = balancer.service(listen_port)
    if service is None:
        raise refused("listen_port", f"no service listens on port {listen_port}")
    return service


@serves("POST", "/load_balancers/{id}/actions/update_service")
def update_service(project, call):
    def check(balancer):
        service = _service_or_refuse(balancer, call.body["listen_port"])
        replacement = balancer.merged(service, call.body)

        def replace():
            balancer.services[balancer.services.index(service)] = replacement

        return replace

    return _change(project, call, "update_service", check)


@serves("POST", "/load_balancers/{id}/actions/delete_service")
def delete_service(project, call):
    def check(balancer):
        service = _service_or_refuse(balancer, call.body["listen_port"])
        return lambda: balancer.services.remove(service)

    return _change(project, call, "delete_service", check)


@serves("POST", "/load_balancers/{id}/actions/add_target")
def add_target(project, call):
    def check(balancer):
        target = balancer.new_target(call.body, balancer.targets, balancer.network_ids, balancer.public)
        return lambda: balancer.targets.append(target)

    return _change(project, call, "add_target", check)


@serves("POST", "/load_balancers/{id}/actions/remove_target")
def remove_target(project, call):
    def check(balancer):
        kind = call.body["type"]
        if kind not in call.body:
            raise refused(kind, f"is required for targets of type {kind}")
        # a server that is gone cannot be named any more, even where the balancer still lists it
        if kind == "server" and call.body["server"]["id"] not in project.servers:
            raise refused("server", f"server with ID {call.body['server']['id']} not found")
        if not any(one["type"] == kind and one[kind] == call.body[kind] for one in balancer.targets):
            raise refused(kind, "is no target of this load balancer")
        return lambda: balancer.drop_target(call.body)

    return _change(project, call, "remove_target", check)


@serves("POST", "/load_balancers/{id}/actions/change_algorithm")
def change_algorithm(project, call):
    def check(balancer):
        return lambda: setattr(balancer, "algorithm", call.body["type"])

    return _change(project, call, "change_algorithm", check)


@serves("POST", "/load_balancers/{id}/actions/change_type")
def change_type(project, call):
    def check(balancer):
        wanted = find(project.cloud.load_balancer_types, call.body["load_balancer_type"])
        fits = wanted and len(balancer.services) <= wanted["max_services"] and len(balancer.targets) <= wanted["max_targets"]
        if not fits:
            raise ApiError("invalid_load_balancer_type", "the load balancer does not fit this type")
        return lambda: setattr(balancer, "type", wanted)

    return _change(project, call, "change_type", check)


@serves("POST", "/load_balancers/{id}/actions/change_dns_ptr")
def change_dns_ptr(project, call):
    def check(balancer):
        ip = call.body["ip"]
        if ip not in (balancer.ipv4, balancer.ipv6):
            raise refused("ip", f"{ip} is not an IP of this load balancer")
        return lambda: balancer.dns_ptr.update({ip: call.body["dns_ptr"]})

    return _change(project, call, "change_dns_ptr", check)


@serves("POST", "/load_balancers/{id}/actions/change_protection")
def change_protection(project, call):
    return _change(project, call, "change_protection", lambda balancer: lambda: balancer.protection.update(call.body))


@serves("POST", "/load_balancers/{id}/actions/attach_to_network")
def attach(project, call):
    balancer = project.get("load_balancers", call.id)
    network = network_of(project, call.body["network"])
    project.check_free(balancer, network)
    if balancer.private_net:
        raise ApiError("load_balancer_already_attached", "load balancer is already attached to a network")
    ip = network.ip_for(call.body.get("ip"), call.body.get("ip_range"), balancer.location["network_zone"])
    entry = {"network": network.id, "ip": ip}
    action = project.act(call, "attach_to_network", [balancer, network], lambda: balancer.private_net.append(entry))
    return {"action": call.render(action)}


@serves("POST", "/load_balancers/{id}/actions/detach_from_network")
def detach(project, call):
    balancer = project.get("load_balancers", call.id)
    network = network_of(project, call.body["network"])
    project.check_free(balancer, network)
    if network.id not in balancer.network_ids:
        raise ApiError("load_balancer_not_attached_to_network", "load balancer is not attached to this network")
    action = project.act(call, "detach_from_network", [balancer, network], lambda: balancer.leave(network.id))
    return {"action": call.render(action)}


@serves("POST", "/load_balancers/{id}/actions/enable_public_interface")
def enable_public_interface(project, call):
    return _change(project, call, "enable_public_interface", lambda balancer: lambda: setattr(balancer, "public", True))


@serves("POST", "/load_balancers/{id}/actions/disable_public_interface")
def disable_public_interface(project, call):
    def check(balancer):
        if not balancer.private_net:
            raise ApiError("load_balancer_not_attached_to_network", "load balancer is not attached to a network")
        if any(one["type"] != "ip" and not one["use_private_ip"] for one in balancer.targets):
            raise ApiError("targets_without_use_private_ip", "there are targets that do not use their private IP")
        return lambda: setattr(balancer, "public", False)

    return _change(project, call, "disable_public_interface", check)
