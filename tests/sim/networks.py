"""Private networks: subnets, routes, and the addresses of their members."""
import ipaddress

from . import lists
from .project import ApiError, Resource, refused
from .routing import serves

MAX_ROUTES = 100
PRIVATE = [ipaddress.ip_network(one) for one in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]
EVERYWHERE = ipaddress.ip_network("0.0.0.0/0")
METADATA_GATEWAY = ipaddress.ip_address("172.31.1.1")


class Network(Resource):
    kind = "network"

    def __init__(self, project, name, ip_range, labels=None, expose_routes_to_vswitch=False):
        super().__init__(project, name, labels)
        self.ip_range = ipaddress.ip_network(ip_range)
        self.subnets = []  # (ip_network, type, zone, vswitch_id)
        self.routes = []  # (ip_network, gateway)
        self.expose = expose_routes_to_vswitch

    def json(self):
        attached = lambda things: [one.id for one in things.values()
                                   if any(entry["network"] == self.id for entry in one.private_net)]
        return {
            **self.common(), "ip_range": str(self.ip_range), "subnets": [self._subnet_json(*one) for one in self.subnets],
            "routes": [{"destination": str(destination), "gateway": str(gateway)} for destination, gateway in self.routes],
            "servers": attached(self.project.servers), "load_balancers": attached(self.project.load_balancers),
            "protection": dict(self.protection), "expose_routes_to_vswitch": self.expose,
        }

    def _subnet_json(self, ip_range, kind, zone, vswitch_id):
        return {"type": kind, "ip_range": str(ip_range), "network_zone": zone, "gateway": str(self.gateway),
                "vswitch_id": vswitch_id}

    @property
    def gateway(self):
        return self.ip_range[1]

    # --- addresses ---------------------------------------------------------------------------------------------------

    def taken(self):
        """Every address in use, as text."""
        found = {str(self.gateway)}
        for holders in (self.project.servers, self.project.load_balancers):
            for one in holders.values():
                for entry in one.private_net:
                    if entry["network"] == self.id:
                        found.update([entry["ip"], *entry.get("alias_ips", [])])
        return found

    def ip_for(self, ip, ip_range, zone=None):
        """The address asked for, or one of the subnet asked for, or of the newest one. zone limits the subnets."""
        subnets = [one for one in self.subnets if one[1] != "vswitch" and zone in (None, one[2])]
        if ip is not None:
            return self._asked_ip(ip, subnets)
        if ip_range is not None:
            asked = parsed_net(ip_range, "ip_range")
            subnets = [one for one in subnets if one[0] == asked]
        if not subnets:
            raise ApiError("no_subnet_available", "the network has no subnet that fits")
        return self._free_in(subnets[-1][0])

    def free_ip(self, zone=None):
        return self.ip_for(None, None, zone)

    def _asked_ip(self, ip, subnets):
        address = parsed_ip(ip, "ip")
        if not any(address in one[0] and address not in (one[0][0], one[0][-1]) for one in subnets):
            raise ApiError("ip_not_available", f"the IP {ip} is in no subnet that fits")
        if str(address) in self.taken():
            raise ApiError("ip_not_available", f"the IP {ip} is not available")
        return str(address)

    def _free_in(self, subnet):
        taken = self.taken()
        for number in range(2, subnet.num_addresses - 1):
            if str(subnet[number]) not in taken:
                return str(subnet[number])
        raise ApiError("ip_not_available", f"no address is left in {subnet}")

    # --- subnets and routes ------------------------------------------------------------------------------------------

    def new_subnet(self, body, pending=()):
        """Checked, not yet added. pending are others of the same request."""
        others = [one[0] for one in [*self.subnets, *pending]]
        if body["type"] == "vswitch" and "vswitch_id" not in body:
            raise refused("vswitch_id", "is required for subnets of type vswitch")
        chosen = parsed_net(body["ip_range"], "ip_range") if body.get("ip_range") else self._free_subnet(others)
        if not chosen.subnet_of(self.ip_range):
            raise refused("ip_range", f"{chosen} is not inside of {self.ip_range}")
        if any(chosen.overlaps(one) for one in others):
            raise refused("ip_range", f"{chosen} overlaps with another subnet")
        if any(chosen.overlaps(one[0]) for one in self.routes if one[0] != EVERYWHERE):
            raise refused("ip_range", f"{chosen} overlaps with a route")
        return chosen, body["type"], body["network_zone"], body.get("vswitch_id")

    def _free_subnet(self, others):
        length = max(24, self.ip_range.prefixlen)
        for one in self.ip_range.subnets(new_prefix=length):
            if not any(one.overlaps(other) for other in others):
                return one
        raise ApiError("no_subnet_available", "no range is left for a subnet")

    def new_route(self, body):
        """Checked as the API does, not yet added."""
        destination = parsed_net(body["destination"], "destination")
        gateway = parsed_ip(body["gateway"], "gateway")
        if len(self.routes) >= MAX_ROUTES:
            raise ApiError("resource_limit_exceeded", f"a network can have {MAX_ROUTES} routes")
        if destination != EVERYWHERE and not any(destination.subnet_of(one) for one in PRIVATE):
            raise refused("destination", f"{destination} is not private")
        if destination != EVERYWHERE and any(destination.overlaps(one[0]) for one in self.subnets):
            raise refused("destination", f"{destination} overlaps with a subnet")
        if any(destination.overlaps(one[0]) for one in self.routes if EVERYWHERE not in (destination, one[0])):
            raise refused("destination", f"{destination} overlaps with another route")
        if destination in [one[0] for one in self.routes]:
            raise refused("destination", f"{destination} is already used")
        self._check_gateway(destination, gateway)
        return destination, gateway

    def _check_gateway(self, destination, gateway):
        if gateway in (self.gateway, METADATA_GATEWAY) or (METADATA_GATEWAY in destination and destination != EVERYWHERE):
            raise refused("gateway", f"{gateway} is reserved")
        if gateway not in self.ip_range:
            raise refused("gateway", f"{gateway} is not inside of {self.ip_range}")
        if any(one[1] == "vswitch" and gateway in one[0] for one in self.subnets):
            raise refused("gateway", f"{gateway} is behind a vSwitch")

    def delete(self):
        for one in list(self.project.servers.values()):
            one.leave(self.id)
        for one in self.project.load_balancers.values():
            one.leave(self.id)
        del self.project.networks[self.id]


def parsed_net(text, field):
    """A canonical IPv4 network."""
    try:
        return ipaddress.IPv4Network(text)
    except ValueError as problem:
        raise refused(field, str(problem)) from None


def parsed_ip(text, field):
    try:
        return ipaddress.IPv4Address(text)
    except ValueError as problem:
        raise refused(field, str(problem)) from None


# --- requests ------------------------------------------------------------------------------------------------------------


@serves("GET", "/networks")
def index(project, call):
    return lists.page_of(call, "networks", project.networks.values(), Network.json)


@serves("POST", "/networks")
def create(project, call):
    body = call.body
    project.check_unique("networks", body["name"])
    ip_range = parsed_net(body["ip_range"], "ip_range")
    if ip_range.prefixlen > 24 or not any(ip_range.subnet_of(one) for one in PRIVATE):
        raise refused("ip_range", f"{ip_range} is not a private range of at least 256 addresses")
    network = Network(project, body["name"], ip_range, body.get("labels"), body.get("expose_routes_to_vswitch", False))
    for one in body.get("subnets", []):
        network.subnets.append(network.new_subnet(one))
    for one in body.get("routes", []):
        network.routes.append(network.new_route(one))
    project.networks[network.id] = network
    return {"network": network.json()}


@serves("GET", "/networks/{id}")
def show(project, call):
    return {"network": project.get("networks", call.id).json()}


@serves("PUT", "/networks/{id}")
def update(project, call):
    network = project.get("networks", call.id)
    if "name" in call.body:
        project.check_unique("networks", call.body["name"], but=network)
        network.name = call.body["name"]
    network.labels = dict(call.body.get("labels", network.labels))
    network.expose = call.body.get("expose_routes_to_vswitch", network.expose)
    return {"network": network.json()}


@serves("DELETE", "/networks/{id}")
def delete(project, call):
    network = project.get("networks", call.id)
    if network.protection["delete"]:
        raise ApiError("protected", "network deletion is protected")
    project.check_free(network)
    network.delete()


def _change(project, call, command, check):
    """check(network) looks at what is asked and returns what does it."""
    network = project.get("networks", call.id)
    project.check_free(network)
    effect = check(network)
    return {"action": call.render(project.act(call, command, [network], effect))}


@serves("POST", "/networks/{id}/actions/add_subnet")
def add_subnet(project, call):
    def check(network):
        subnet = network.new_subnet(call.body)
        return lambda: network.subnets.append(subnet)

    return _change(project, call, "add_subnet", check)


@serves("POST", "/networks/{id}/actions/delete_subnet")
def delete_subnet(project, call):
    def check(network):
        ip_range = parsed_net(call.body["ip_range"], "ip_range")
        found = next((one for one in network.subnets if one[0] == ip_range), None)
        if found is None:
            raise refused("ip_range", f"no subnet {ip_range}")
        if any(ipaddress.ip_address(ip) in ip_range for ip in network.taken() - {str(network.gateway)}):
            raise ApiError("resource_in_use", f"addresses of {ip_range} are in use")
        return lambda: network.subnets.remove(found)

    return _change(project, call, "delete_subnet", check)


@serves("POST", "/networks/{id}/actions/add_route")
def add_route(project, call):
    def check(network):
        route = network.new_route(call.body)
        return lambda: network.routes.append(route)

    return _change(project, call, "add_route", check)


@serves("POST", "/networks/{id}/actions/delete_route")
def delete_route(project, call):
    def check(network):
        route = parsed_net(call.body["destination"], "destination"), parsed_ip(call.body["gateway"], "gateway")
        if route not in network.routes:
            raise ApiError("not_found", f"route {route[0]} via {route[1]} not found")
        return lambda: network.routes.remove(route)

    return _change(project, call, "delete_route", check)


@serves("POST", "/networks/{id}/actions/change_ip_range")
def change_ip_range(project, call):
    def check(network):
        ip_range = parsed_net(call.body["ip_range"], "ip_range")
        if not network.ip_range.subnet_of(ip_range):
            raise refused("ip_range", "a network can only grow")

        def grow():
            network.ip_range = ip_range

        return grow

    return _change(project, call, "change_ip_range", check)


@serves("POST", "/networks/{id}/actions/change_protection")
def change_protection(project, call):
    return _change(project, call, "change_protection", lambda network: lambda: network.protection.update(call.body))
