"""One account of Brightbox: its objects, what they look like in answers, and what changes them.

Each object is a dict of its own members, as the API names them. References to other objects are ids,
which answers replace by nested objects. A member that a test sets to None stays null.

Everything here is called under the simulator's lock. Times are those of the simulator's clock.
"""
import datetime
import ipaddress
import itertools

CODES = {
    "accounts": "acc", "servers": "srv", "server_types": "typ", "zones": "zon", "images": "img", "interfaces": "int",
    "cloud_ips": "cip", "load_balancers": "lba", "server_groups": "grp", "firewall_policies": "fwp",
    "firewall_rules": "fwr",
}
COLLECTIONS = ("server_types", "zones", "servers", "load_balancers", "cloud_ips", "server_groups", "firewall_policies",
               "firewall_rules")
TYPES = {"firewall_policies": "firewall_policy"}
NESTED = {
    "servers": ("name", "status", "locked", "hostname", "fqdn", "created_at", "started_at", "deleted_at"),
    "load_balancers": ("name", "status", "locked", "buffer_size", "https_redirect", "created_at", "deleted_at"),
    "cloud_ips": ("status", "public_ip", "public_ipv4", "public_ipv6", "fqdn", "reverse_dns", "name", "mode"),
    "server_groups": ("name", "description", "created_at", "default", "fqdn"),
    "firewall_policies": ("default", "name", "created_at", "description"),
    "firewall_rules": ("source", "source_port", "destination", "destination_port", "protocol", "icmp_type_name",
                       "description", "created_at"),
    "accounts": ("name", "status"),
}
TARGETS = {"lba": "load_balancer", "int": "interface", "grp": "server_group", "dbs": "database_server"}
IPV6_OF_CLOUD_IPS = int(ipaddress.IPv6Address("2a02:1348:ffff:ffff::"))
CONFLICT = "Unable to action the request due to conflicting states"


class ApiError(Exception):
    """A refusal: becomes the answer."""

    def __init__(self, status, name, *errors):
        super().__init__(f"{status} {name}: {', '.join(errors)}")
        self.status = status
        self.body = {"error_name": name, "errors": list(errors)}


def missing():
    return ApiError(404, "missing_resource", "Resource not found")


def conflict(text=CONFLICT):
    return ApiError(409, "resource_conflict", text)


def unprocessable(*errors):
    return ApiError(422, "unprocessable_entity", *errors)


def stamp(seconds):
    when = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def resource_type(collection):
    return TYPES.get(collection, collection[:-1])


class Account:
    def __init__(self, api, name):
        self.api = api
        self.id = api.new_id("accounts")
        self.name = name
        self._due = []  # (time, order, effect)
        self._order = itertools.count()
        self._addresses = itertools.count()
        self.objects = {collection: {} for collection in COLLECTIONS}
        for letter in "ab":
            self.add("zones", handle=f"{api.region}-{letter}")
        for handle, cores, ram in (("1gb.ssd", 1, 1024), ("2gb.ssd", 2, 2048), ("4gb.ssd", 2, 4096)):
            self.add("server_types", handle=handle, name=f"SSD {handle}", status="available", cores=cores, ram=ram,
                     disk_size=ram * 30, storage_type="local")
        group = self.add("server_groups", name="default", default=True)
        self.add("firewall_policies", name="default", default=True, server_group=group["id"])

    # --- making objects ----------------------------------------------------------------------------------------------

    def add(self, collection, **members):
        """An object with the usual members, except those given. Returns its dict, which may be changed."""
        ident = members.pop("id", None) or self.api.new_id(collection)
        made = {"id": ident, **getattr(self, f"_new_{collection}")(ident)}
        unknown = members.keys() - made.keys()
        assert not unknown, f"{collection} have no {', '.join(sorted(unknown))}"
        made.update(members)
        self.objects[collection][ident] = made
        return made

    def add_server(self, name=None, groups=(), **members):
        """A server; its name in Kubernetes is its id. zone and server_type are ids or handles, or None."""
        for member, collection in (("zone", "zones"), ("server_type", "server_types")):
            if members.get(member) and members[member] not in self.objects[collection]:
                members[member] = self._by_handle(collection, members[member])["id"]
        server = self.add("servers", name=name, **members)
        for group in groups:
            group["servers"].append(server["id"])
        return server

    def _by_handle(self, collection, handle):
        found = [one for one in self.objects[collection].values() if one["handle"] == handle]
        return found[0] if found else self.add(collection, handle=handle)

    def _new_zones(self, ident):
        return {"handle": None}

    def _new_server_types(self, ident):
        return {"name": None, "status": "available", "cores": 1, "ram": 1024, "disk_size": 20480, "handle": None,
                "storage_type": "local"}

    def _new_servers(self, ident):
        now, number = stamp(self.api.now()), next(self._addresses)
        mac = "02:24:19:%02x:%02x:%02x" % (number >> 16 & 255, number >> 8 & 255, number & 255)
        interface = {
            "id": self.api.new_id("interfaces"), "mac_address": mac,
            "ipv4_address": str(ipaddress.IPv4Address("10.240.0.2") + number),
            "ipv6_address": str(ipaddress.IPv6Address("2a02:1348:178:4c6:24:19ff:fe00:0") + number),
        }
        return {
            "name": None, "status": "active", "locked": False, "hostname": ident, "created_at": now, "started_at": now,
            "deleted_at": None, "user_data": None, "fqdn": f"{ident}.{self.api.region}.brightbox.com",
            "compatibility_mode": False, "disk_encrypted": False, "console_url": None, "console_token": None,
            "console_token_expires": None, "snapshots_schedule": None, "snapshots_schedule_next_at": None,
            "snapshots_retention": None, "zone": next(iter(self.objects["zones"])),
            "server_type": next(iter(self.objects["server_types"])), "interfaces": [interface],
        }

    def _new_load_balancers(self, ident):
        return {
            "name": None, "status": "active", "locked": False, "created_at": stamp(self.api.now()), "deleted_at": None,
            "policy": "least-connections", "buffer_size": 4096, "https_redirect": False, "listeners": [],
            "healthcheck": {"type": "http", "port": 80, "request": "/", "interval": 5000, "timeout": 5000,
                            "threshold_up": 3, "threshold_down": 3},
            "acme": {"certificate": None, "domains": []}, "ssl_minimum_version": "TLSv1.2", "certificate": None,
            "nodes": [],
        }

    def _new_cloud_ips(self, ident):
        address = ipaddress.IPv4Address("109.107.32.1") + next(self._addresses)
        dashed = str(address).replace(".", "-")
        return {
            "status": "unmapped", "public_ip": str(address), "public_ipv4": str(address),
            "public_ipv6": str(ipaddress.IPv6Address(IPV6_OF_CLOUD_IPS + int(address))),
            "fqdn": f"{ident}.{self.api.region}.brightbox.com",
            "reverse_dns": f"cip-{dashed}.{self.api.region}.brightbox.com", "port_translators": [], "name": None,
            "mode": "nat", "interface": None, "server": None, "load_balancer": None, "server_group": None,
            "database_server": None,
        }

    def _new_server_groups(self, ident):
        return {"name": None, "description": None, "created_at": stamp(self.api.now()), "default": False,
                "fqdn": f"{ident}.{self.api.region}.brightbox.com", "servers": []}

    def _new_firewall_policies(self, ident):
        return {"default": False, "name": None, "created_at": stamp(self.api.now()), "description": None,
                "server_group": None}

    def _new_firewall_rules(self, ident):
        return {"source": None, "source_port": None, "destination": None, "destination_port": None, "protocol": None,
                "icmp_type_name": None, "description": None, "created_at": stamp(self.api.now()),
                "firewall_policy": None}

    # --- finding and showing them ------------------------------------------------------------------------------------

    def get(self, collection, ident):
        try:
            return self.objects[collection][ident]
        except KeyError:
            raise missing() from None

    def every(self, collection):
        return list(self.objects[collection].values())

    def named(self, collection, name):
        """For tests: those of that name."""
        return [one for one in self.every(collection) if one["name"] == name]

    def nested(self, collection, ident):
        """What another object's answer says of it; None if there is no such object."""
        found = self.objects[collection].get(ident)
        if found is None:
            return None
        return {**self._head(collection, ident), **{name: found[name] for name in NESTED[collection]}}

    def full(self, collection, one):
        """What a GET of it, an element of a list and the answer to a change say."""
        shown = {**self._head(collection, one["id"]), **one}
        return getattr(self, f"_full_{collection}", lambda shown, one: shown)(shown, one)

    def show(self):
        return {"id": self.id, "resource_type": "account", "url": self._url("accounts", self.id), "name": self.name,
                "status": "active"}

    def _url(self, collection, ident):
        return f"https://api.{self.api.region}.brightbox.com/1.0/{collection}/{ident}"

    def _head(self, collection, ident):
        return {"id": ident, "resource_type": resource_type(collection), "url": self._url(collection, ident)}

    def _nested_list(self, collection, idents):
        return [self.nested(collection, ident) for ident in idents]

    def _full_servers(self, shown, one):
        groups = [group["id"] for group in self.every("server_groups") if one["id"] in group["servers"]]
        interfaces = [{**self._head("interfaces", each["id"]), **each} for each in one["interfaces"]]
        own = {each["id"] for each in one["interfaces"]}
        cloud_ips = [each["id"] for each in self.every("cloud_ips")
                     if each["server"] == one["id"] or each["interface"] in own]
        whole = lambda collection, ident: ident and self.full(collection, self.objects[collection][ident])
        return {
            **shown, "account": self.show(), "image": None, "server_type": whole("server_types", one["server_type"]),
            "zone": whole("zones", one["zone"]), "cloud_ips": self._nested_list("cloud_ips", cloud_ips),
            "interfaces": interfaces, "snapshots": [], "server_groups": self._nested_list("server_groups", groups),
            "volumes": [],
        }

    def _full_load_balancers(self, shown, one):
        cloud_ips = [each["id"] for each in self.every("cloud_ips") if each["load_balancer"] == one["id"]]
        return {**shown, "account": self.show(), "cloud_ips": self._nested_list("cloud_ips", cloud_ips),
                "nodes": self._nested_list("servers", one["nodes"])}

    def _full_cloud_ips(self, shown, one):
        server = one["server"] or next((each["id"] for each in self.every("servers") if one["interface"] in
                                        [own["id"] for own in each["interfaces"]]), None)
        return {
            **shown, "account": self.show(), "server": self.nested("servers", server),
            "interface": one["interface"] and self._head("interfaces", one["interface"]),
            "load_balancer": self.nested("load_balancers", one["load_balancer"]),
            "server_group": self.nested("server_groups", one["server_group"]),
        }

    def _full_server_groups(self, shown, one):
        policy = next((each["id"] for each in self.every("firewall_policies") if each["server_group"] == one["id"]), None)
        return {**shown, "account": self.show(), "servers": self._nested_list("servers", one["servers"]),
                "firewall_policy": self.nested("firewall_policies", policy)}

    def _full_firewall_policies(self, shown, one):
        return {**shown, "account": self.show(), "server_group": self.nested("server_groups", one["server_group"]),
                "rules": self._nested_list("firewall_rules", [each["id"] for each in self.rules_of(one)])}

    def _full_firewall_rules(self, shown, one):
        return {**shown, "firewall_policy": self.nested("firewall_policies", one["firewall_policy"])}

    def rules_of(self, policy):
        return [one for one in self.every("firewall_rules") if one["firewall_policy"] == policy["id"]]

    # --- changes that take a while -----------------------------------------------------------------------------------

    def later(self, seconds, effect):
        """Runs the effect after that long, immediately if it is 0; None: never."""
        if seconds == 0:
            effect()
        elif seconds is not None:
            self._due.append((self.api.now() + seconds, next(self._order), effect))

    def settle(self):
        """Runs the effects that are due."""
        while True:
            due = sorted(one for one in self._due if one[0] <= self.api.now())
            if not due:
                return
            self._due.remove(due[0])
            due[0][2]()

    # --- load balancers ----------------------------------------------------------------------------------------------

    def _check_balancer(self, body, one=None):
        problems = []
        for node in body.get("nodes") or []:
            if self.objects["servers"].get(node["node"], {}).get("status") in (None, "deleted"):
                problems.append(f"Node {node['node']} is not a server of this account")
        listeners = body["listeners"] if "listeners" in body else one["listeners"]
        ports = [each["in"] for each in listeners]
        if len(ports) != len(set(ports)):
            problems.append("Listeners have duplicate in ports")
        domains = body["domains"] if body.get("domains") is not None else one and one["acme"]["domains"]
        if any(each["protocol"] == "https" for each in listeners) and not domains and "certificate_pem" not in body:
            problems.append("Listeners with https need domains or a certificate")
        if problems:
            raise unprocessable(*problems)

    def _change_balancer(self, one, body):
        simple = ("name", "policy", "https_redirect", "buffer_size", "ssl_minimum_version")
        changes = {name: body[name] for name in simple if name in body}
        if "nodes" in body:
            changes["nodes"] = [node["node"] for node in body["nodes"] or []]
        if "listeners" in body:
            changes["listeners"] = [{"timeout": 50000, "proxy_protocol": None, **each} for each in body["listeners"]]
        if "healthcheck" in body:
            changes["healthcheck"] = {**self._new_load_balancers(one["id"])["healthcheck"], **body["healthcheck"]}
        if body.get("domains") is not None:
            known = {each["identifier"]: each for each in one["acme"]["domains"]}
            changes["acme"] = {**one["acme"], "domains": [known.get(name) or self._new_domain(name) for name in body["domains"]]}
        one.update(changes)  # at once: tests read it without the lock

    def _new_domain(self, name):
        domain = {"identifier": name, "status": "pending", "last_message": None}
        status, message = self.api.acme_status.get(name, ("valid", None))
        self.later(self.api.acme_delay_s, lambda: domain.update(status=status, last_message=message))
        return domain

    def create_balancer(self, body):
        self.check_limit("load_balancers")
        self._check_balancer(body)
        one = self.add("load_balancers", status="creating")
        self._change_balancer(one, body)

        def build():
            if one["status"] == "creating":
                one["status"] = "active"

        reply = self.full("load_balancers", one)
        self.later(self.api.lb_build_s, build)
        return reply

    def update_balancer(self, one, body):
        if one["status"] not in ("active", "creating"):
            raise conflict()
        self._check_balancer(body, one)
        self._change_balancer(one, body)
        return self.full("load_balancers", one)

    def destroy_balancer(self, one):
        if one["locked"] or one["status"] in ("deleting", "deleted"):
            raise conflict()

        def end():
            one.update(status="deleted", deleted_at=stamp(self.api.now()))
            if not self.api.lb_delete_leaves_cloud_ips_mapped:
                for each in self.every("cloud_ips"):
                    if each["load_balancer"] == one["id"]:
                        each.update(status="unmapped", load_balancer=None)
            self.later(self.api.linger_s, lambda: self.objects["load_balancers"].pop(one["id"], None))

        one["status"] = "deleting"
        reply = self.full("load_balancers", one)
        self.later(self.api.lb_destroy_s, end)
        return reply

    # --- cloud IPs ---------------------------------------------------------------------------------------------------

    def map_cloud_ip(self, one, destination):
        member = TARGETS[destination[:3]]
        collection = f"{member}s"
        if collection in self.objects:
            target = self.get(collection, destination)
            if target.get("status") in ("deleting", "deleted"):
                raise conflict()
        elif not any(destination == each["id"] for server in self.every("servers") for each in server["interfaces"]):
            raise missing()
        if one["status"] == "mapped":
            raise conflict()
        reply = self.full("cloud_ips", one)
        self.later(None if self.api.map_never_completes else self.api.map_delay_s,
                   lambda: one.update({"status": "mapped", member: destination}))
        return reply

    def unmap_cloud_ip(self, one):
        if one["status"] != "mapped":
            raise conflict()
        reply = self.full("cloud_ips", one)
        self.later(self.api.map_delay_s, lambda: one.update(
            {"status": "unmapped", **dict.fromkeys([*TARGETS.values(), "server"])}))
        return reply

    def destroy_cloud_ip(self, one):
        if one["status"] == "mapped":
            raise conflict()
        return self.full("cloud_ips", self.objects["cloud_ips"].pop(one["id"]))

    # --- server groups and the firewall ------------------------------------------------------------------------------

    def change_members(self, group, servers, adds):
        wanted = [each["server"] for each in servers]
        unknown = [ident for ident in wanted if self.objects["servers"].get(ident, {}).get("status") in (None, "deleted")]
        if unknown:
            raise unprocessable(*(f"{ident} is not a server of this account" for ident in unknown))
        if adds:
            group["servers"] += [ident for ident in dict.fromkeys(wanted) if ident not in group["servers"]]
        else:
            group["servers"] = [ident for ident in group["servers"] if ident not in wanted]
        return self.full("server_groups", group)

    def destroy_group(self, group):
        if group["default"] or group["servers"]:
            raise conflict()
        reply = self.full("server_groups", group)
        del self.objects["server_groups"][group["id"]]
        for policy in self.every("firewall_policies"):
            if policy["server_group"] == group["id"]:
                policy["server_group"] = None
        return reply

    def apply_policy(self, policy, group):
        """A group has at most one policy: the former one is applied to no group afterwards."""
        self.get("server_groups", group)
        for other in self.every("firewall_policies"):
            if other["server_group"] == group:
                other["server_group"] = None
        policy["server_group"] = group
        return self.full("firewall_policies", policy)

    def destroy_policy(self, policy):
        if policy["default"]:
            raise conflict()
        reply = self.full("firewall_policies", policy)
        for rule in self.rules_of(policy):
            del self.objects["firewall_rules"][rule["id"]]
        del self.objects["firewall_policies"][policy["id"]]
        return reply

    def check_limit(self, collection):
        limit = self.api.limits.get(collection)
        if limit is not None and len(self.objects[collection]) >= limit:
            raise ApiError(403, "Forbidden", "Account limit reached, please contact support for more information")

    # --- servers -----------------------------------------------------------------------------------------------------

    def power(self, server, verb):
        wanted = "inactive" if verb in ("stop", "shutdown") else "active"
        allowed = ("inactive",) if verb == "start" else ("active",)
        if server["status"] not in allowed:
            raise conflict()
        reply = self.full("servers", server)
        self.later(self.api.server_delay_s, lambda: server.update(status=wanted))
        return reply

    def destroy_server(self, server):
        if server["locked"] or server["status"] in ("deleting", "deleted"):
            raise conflict()

        def end():
            server.update(status="deleted", deleted_at=stamp(self.api.now()))
            for holder in (*self.every("server_groups"), *self.every("load_balancers")):
                for member in ("servers", "nodes"):
                    if server["id"] in holder.get(member, ()):
                        holder[member].remove(server["id"])

        server["status"] = "deleting"
        reply = self.full("servers", server)
        self.later(self.api.server_delay_s, end)
        return reply

    def forget(self, collection, one):
        """For tests: the object is gone, and every request for it is answered with 404."""
        if collection == "servers":
            for holder in (*self.every("server_groups"), *self.every("load_balancers")):
                for member in ("servers", "nodes"):
                    if one["id"] in holder.get(member, ()):
                        holder[member].remove(one["id"])
        del self.objects[collection][one["id"]]
