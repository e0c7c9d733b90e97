"""Primary IPs: public addresses that exist on their own, and that a new load balancer may be given.

An address that the cloud chooses for a balancer has an ID as well, but is in no list. Which code the API uses for which refusal is
not documented for load balancers; the codes are those of servers.
"""
import ipaddress

from . import lists
from .project import ApiError, Resource, invalid, refused
from .routing import serves
from .servers import known


class PrimaryIp(Resource):
    kind = "primary_ip"

    def __init__(self, project, name, kind_of, location, auto_delete=False, labels=None, assignee_type="server"):
        super().__init__(project, name, labels)
        self.type = kind_of
        self.location = location
        self.auto_delete = auto_delete
        self.blocked = False
        self.assignee_type = assignee_type
        self.assignee_id = None
        v4, v6 = project.public_pair()
        self.ip = v4 if kind_of == "ipv4" else v6

    def json(self):
        return {
            **self.common(), "ip": self.ip, "type": self.type, "assignee_id": self.assignee_id,
            "assignee_type": self.assignee_type, "auto_delete": self.auto_delete, "blocked": self.blocked,
            "location": self.location, "dns_ptr": [], "protection": dict(self.protection),
        }

    @property
    def address(self):
        """Of a balancer that has it: of an IPv6 network the first one."""
        return self.ip if self.type == "ipv4" else str(ipaddress.ip_network(self.ip)[1])

    def assign(self, balancer):
        self.assignee_type = "load_balancer"
        self.assignee_id = balancer.id

    def release(self):
        """Its balancer is gone."""
        self.assignee_id = None
        if self.auto_delete:
            del self.project.primary_ips[self.id]


def wanted_by(project, body, location):
    """Those that the body of a new balancer names, by type, or a refusal."""
    asked = {kind: ident for kind, ident in (body.get("public_net") or {}).items() if ident is not None}
    if "public_net" in body and not project.cloud.takes_primary_ips:
        raise invalid([("public_net", "unknown field")])
    if asked and not body.get("public_interface", True):
        raise refused("public_net", "is not possible with a disabled public interface")
    return {kind: _usable(project, kind, ident, location) for kind, ident in asked.items()}


def _usable(project, kind, ident, location):
    found = project.primary_ips.get(ident)
    if found is None:
        raise refused(f"public_net.{kind}", f"primary IP with ID {ident} not found")
    if found.type != kind:
        raise ApiError("primary_ip_version_mismatch", f"primary IP {ident} has type {found.type}")
    if found.location != location:
        raise ApiError("primary_ip_datacenter_mismatch", f"primary IP {ident} is in {found.location['name']}")
    if found.assignee_id is not None:
        raise ApiError("primary_ip_assigned", f"primary IP {ident} is already assigned")
    return found


@serves("GET", "/primary_ips")
def index(project, call):
    return lists.page_of(call, "primary_ips", project.primary_ips.values(), PrimaryIp.json)


@serves("POST", "/primary_ips")
def create(project, call):
    body = call.body
    project.check_unique("primary_ips", body["name"])
    if "location" not in body:
        raise refused("location", "is required without an assignee")
    made = PrimaryIp(project, body["name"], body["type"], known(project.cloud.locations, "location", body["location"]),
                     body.get("auto_delete", False), body.get("labels"), body.get("assignee_type", "server"))
    project.primary_ips[made.id] = made
    return {"primary_ip": made.json()}


@serves("GET", "/primary_ips/{id}")
def show(project, call):
    return {"primary_ip": project.get("primary_ips", call.id).json()}


@serves("PUT", "/primary_ips/{id}")
def update(project, call):
    found = project.get("primary_ips", call.id)
    if "name" in call.body:
        project.check_unique("primary_ips", call.body["name"], but=found)
        found.name = call.body["name"]
    if call.body.get("auto_delete") and found.protection["delete"]:
        raise refused("auto_delete", "is not possible with protection against deletion")
    found.auto_delete = call.body.get("auto_delete", found.auto_delete)
    found.labels = dict(call.body.get("labels", found.labels))
    return {"primary_ip": found.json()}


@serves("DELETE", "/primary_ips/{id}")
def delete(project, call):
    found = project.get("primary_ips", call.id)
    if found.protection["delete"]:
        raise ApiError("protected", "primary IP deletion is protected")
    if found.assignee_id is not None:
        raise ApiError("must_be_unassigned", "primary IP is still assigned")
    del project.primary_ips[found.id]


@serves("POST", "/primary_ips/{id}/actions/change_protection")
def change_protection(project, call):
    found = project.get("primary_ips", call.id)
    if found.auto_delete and call.body.get("delete"):
        raise refused("delete", "is not possible with auto_delete")
    return {"action": call.render(project.act(call, "change_protection", [found], lambda: found.protection.update(call.body)))}
