"""Servers."""
import ipaddress
import secrets

from . import lists
from .catalog import find
from .project import ApiError, Resource, refused
from .routing import serves


class Server(Resource):
    kind = "server"

    def __init__(self, project, name, server_type, image, location, ipv4, ipv6, labels=None):
        super().__init__(project, name, labels)
        self.server_type = server_type
        self.image = image
        self.location = location
        self.ipv4 = ipv4
        self.ipv6 = ipv6
        self.status = "running"
        self.private_net = []  # of the API's entries
        self.protection = {"delete": False, "rebuild": False}

    def json(self):
        balancers = [one.id for one in self.project.load_balancers.values() if one.has_server(self.id)]
        body = {
            **self.common(), "status": self.status, "public_net": self._public_net(),
            "private_net": [dict(one) for one in self.private_net], "server_type": self.server_type,
            "location": self.location, "image": self.image, "iso": None, "rescue_enabled": False,
            "locked": self.project.busy(self), "backup_window": None, "outgoing_traffic": 0, "ingoing_traffic": 0,
            "included_traffic": 20 << 40, "protection": dict(self.protection), "volumes": [],
            "load_balancers": balancers, "primary_disk_size": self.server_type["disk"], "placement_group": None,
        }
        if self.project.cloud.datacenter == "null":
            body["datacenter"] = None
        elif self.project.cloud.datacenter == "present":
            body["datacenter"] = next(one for one in self.project.cloud.datacenters if one["location"] == self.location)
        return body

    def _public_net(self):
        reverse = lambda ip: "static." + ".".join(reversed(ip.split("."))) + ".clients.your-server.de"
        v4 = {"id": self.id + 1, "ip": self.ipv4, "blocked": False, "dns_ptr": reverse(self.ipv4)} if self.ipv4 else None
        v6 = {"id": self.id + 2, "ip": self.ipv6, "blocked": False, "dns_ptr": []} if self.ipv6 else None
        return {"ipv4": v4, "ipv6": v6, "floating_ips": [], "firewalls": []}

    def private_ip(self, network_id):
        return next((one["ip"] for one in self.private_net if one["network"] == network_id), None)

    # --- what changes it ---------------------------------------------------------------------------------------------

    def join(self, network, ip, alias_ips=()):
        tail = self.id & 0xFFFFFF
        mac = f"86:00:00:{tail >> 16:02x}:{tail >> 8 & 255:02x}:{tail & 255:02x}"
        self.private_net.append({"network": network.id, "ip": ip, "alias_ips": list(alias_ips), "mac_address": mac})

    def leave(self, network_id):
        self.private_net = [one for one in self.private_net if one["network"] != network_id]
        for balancer in self.project.load_balancers.values():
            if any(one["network"] == network_id for one in balancer.private_net):
                balancer.drop_private_target(self.id)

    def delete(self):
        """Deletes the server immediately, also from the balancers' targets, unless the cloud's setting says that they lag."""
        del self.project.servers[self.id]
        if not self.project.cloud.targets_outlive_servers:
            self.project.drop_dead_targets()


# --- requests ------------------------------------------------------------------------------------------------------------


@serves("GET", "/servers")
def index(project, call):
    return lists.page_of(call, "servers", project.servers.values(), Server.json)


@serves("POST", "/servers")
def create(project, call):
    body = call.body
    project.check_unique("servers", body["name"])
    server_type = known(project.cloud.server_types, "server_type", body["server_type"])
    images = [one for one in project.cloud.images if one["architecture"] == server_type["architecture"]]
    image = known(images, "image", body["image"])
    for name in ("ssh_keys", "volumes", "firewalls"):
        if body.get(name):
            raise refused(name, "no such resource in this project")
    networks = [network_of(project, ident, "networks") for ident in body.get("networks", [])]
    ips = [network.free_ip() for network in networks]
    public = body.get("public_net", {})
    v4, v6 = project.public_pair()
    server = Server(project, body["name"], server_type, image, _place(project, body),
                    v4 if public.get("enable_ipv4", True) else None, v6 if public.get("enable_ipv6", True) else None,
                    body.get("labels"))
    project.servers[server.id] = server
    server.status = "initializing"
    for network, ip in zip(networks, ips):
        server.join(network, ip)
    wanted = "running" if body.get("start_after_create", True) else "off"
    action = project.act(call, "create_server", [server], lambda: _power(server, wanted))
    return {"server": server.json(), "action": call.render(action), "next_actions": [],
            "root_password": secrets.token_urlsafe(15)}


def _place(project, body):
    if "location" in body and "datacenter" in body:
        raise refused("location", "only one of location and datacenter may be given")
    if "datacenter" in body:
        return known(project.cloud.datacenters, "datacenter", body["datacenter"])["location"]
    return known(project.cloud.locations, "location", body.get("location", "fsn1"))


def known(things, field, wanted):
    found = find(things, wanted)
    if found is None:
        raise refused(field, f"{field} {wanted!r} not found")
    return found


def network_of(project, ident, field="network"):
    found = project.networks.get(ident)
    if found is None:
        raise refused(field, f"network with ID {ident} not found")
    return found


@serves("GET", "/servers/{id}")
def show(project, call):
    return {"server": project.get("servers", call.id).json()}


@serves("PUT", "/servers/{id}")
def update(project, call):
    server = project.get("servers", call.id)
    if "name" in call.body:
        project.check_unique("servers", call.body["name"], but=server)
        server.name = call.body["name"]
    server.labels = dict(call.body.get("labels", server.labels))
    return {"server": server.json()}


@serves("DELETE", "/servers/{id}")
def delete(project, call):
    server = project.get("servers", call.id)
    if server.protection["delete"]:
        raise ApiError("protected", "server deletion is protected")
    project.check_free(server)
    server.status = "deleting"
    action = project.act(call, "delete_server", [server], server.delete)
    return {"action": call.render(action)}


def _power(server, status):
    server.status = status


def _change(project, call, command, effect):
    server = project.get("servers", call.id)
    project.check_free(server)
    action = project.act(call, command, [server], lambda: effect(server))
    return {"action": call.render(action)}


@serves("POST", "/servers/{id}/actions/poweron")
def power_on(project, call):
    return _change(project, call, "start_server", lambda server: _power(server, "running"))


@serves("POST", "/servers/{id}/actions/poweroff")
def power_off(project, call):
    return _change(project, call, "stop_server", lambda server: _power(server, "off"))


@serves("POST", "/servers/{id}/actions/shutdown")
def shutdown(project, call):
    return _change(project, call, "shutdown_server", lambda server: _power(server, "off"))


@serves("POST", "/servers/{id}/actions/reboot")
def reboot(project, call):
    return _change(project, call, "reboot_server", lambda server: None)


@serves("POST", "/servers/{id}/actions/reset")
def reset(project, call):
    return _change(project, call, "reset_server", lambda server: _power(server, "running"))


@serves("POST", "/servers/{id}/actions/change_protection")
def change_protection(project, call):
    return _change(project, call, "change_protection", lambda server: server.protection.update(call.body))


@serves("POST", "/servers/{id}/actions/attach_to_network")
def attach(project, call):
    server = project.get("servers", call.id)
    network = network_of(project, call.body["network"])
    project.check_free(server, network)
    if server.private_ip(network.id):
        raise ApiError("server_already_attached", "server is already attached to the network")
    ip = network.ip_for(call.body.get("ip"), call.body.get("ip_range"))
    aliases = _aliases(network, call.body.get("alias_ips", []), but=ip)
    action = project.act(call, "attach_to_network", [server, network], lambda: server.join(network, ip, aliases))
    return {"action": call.render(action)}


@serves("POST", "/servers/{id}/actions/detach_from_network")
def detach(project, call):
    server = project.get("servers", call.id)
    network = network_of(project, call.body["network"])
    project.check_free(server, network)
    _require_attached(server, network)
    action = project.act(call, "detach_from_network", [server, network], lambda: server.leave(network.id))
    return {"action": call.render(action)}


@serves("POST", "/servers/{id}/actions/change_alias_ips")
def change_alias_ips(project, call):
    server = project.get("servers", call.id)
    network = network_of(project, call.body["network"])
    project.check_free(server, network)
    _require_attached(server, network)
    entry = next(one for one in server.private_net if one["network"] == network.id)
    aliases = _aliases(network, [one for one in call.body["alias_ips"] if one not in entry["alias_ips"]])
    kept = [one for one in call.body["alias_ips"] if one in entry["alias_ips"]]
    change = lambda: entry.update(alias_ips=kept + aliases)
    return {"action": call.render(project.act(call, "change_alias_ips", [server, network], change))}


def _require_attached(server, network):
    if not server.private_ip(network.id):
        raise refused("network", f"server is not attached to the network {network.id}")


def _aliases(network, addresses, but=None):
    for one in addresses:
        if one == but or network.ip_for(one, None) != one:
            raise ApiError("ip_not_available", f"the IP {one} is not available")
    return [str(ipaddress.ip_address(one)) for one in addresses]
