"""One project of the Hetzner Cloud: what a token sees. Resources, their numbers and names, and the actions on them.

Everything here is called under the cloud's lock.
"""
import datetime
import ipaddress

from . import faults
from .catalog import find

TRANSIENT = {"network": "conflict"}  # the error of a busy resource, by type; the error of all others is "locked"


class ApiError(Exception):
    """A refusal: becomes the answer's error body."""

    def __init__(self, code, message, details=None, status=None):
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.details = details
        self.status = status or faults.status_of(code)


def refused(name, message):
    """invalid_input because of what one field asks for."""
    return ApiError("invalid_input", message, {"fields": [{"name": name, "messages": [message]}]})


def invalid(problems):
    """invalid_input because of the form of fields: [(name, message), …]."""
    fields = {}
    for name, message in problems:
        fields.setdefault(name, []).append(message)
    details = {"fields": [{"name": name, "messages": messages} for name, messages in fields.items()]}
    names = ", ".join(f"'{name}'" for name in fields)
    return ApiError("invalid_input", f"invalid input in field {names}", details)


def stamp(seconds):
    return None if seconds is None else datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat("T", "seconds")


class Action:
    """A change that takes some time. resources and holds are lists of (type, id): what it is about, and what it keeps busy."""

    def __init__(self, ident, command, resources, holds, started, due, effect, failure):
        self.id = ident
        self.command = command
        self.resources = resources
        self.holds = holds
        self.started = started
        self.due = due  # None: never
        self.effect = effect  # still to be done, or None
        self.failure = failure
        self.status = "running"
        self.finished = None

    def progress(self, now):
        if self.status != "running":
            return 100
        if self.due is None:
            return 0
        return max(0, min(99, int(100 * (now - self.started) / max(1e-9, self.due - self.started))))

    def json(self, now):
        return {
            "id": self.id, "command": self.command, "status": self.status, "progress": self.progress(now),
            "started": stamp(self.started), "finished": stamp(self.finished),
            "resources": [{"id": ident, "type": kind} for kind, ident in self.resources],
            "error": self.failure if self.status == "error" else None,
        }


class Resource:
    """A server, network, balancer or certificate. kind is its type as actions call it."""

    kind = ""

    def __init__(self, project, name, labels=None):
        self.project = project
        self.id = project.cloud.next_id()
        self.name = name
        self.labels = dict(labels or {})
        self.created = project.cloud.clock.now()
        self.protection = {"delete": False}

    @property
    def key(self):
        return (self.kind, self.id)

    def common(self):
        return {"id": self.id, "name": self.name, "labels": dict(self.labels), "created": stamp(self.created)}


class Project:
    def __init__(self, cloud, number):
        self.cloud = cloud
        self.number = number
        self.servers = {}
        self.networks = {}
        self.load_balancers = {}
        self.certificates = {}
        self.primary_ips = {}
        self.actions = {}
        self.robot_ips = set()  # what add_target may name as ip
        self.managed_at = []  # when managed certificates were ordered
        self._public = 0
        self._running = []
        # the bucket of requests: docs/spec/hcloud.md, "Rate limit"
        self.tokens_left = float(cloud.rate_limit)
        self.filled_at = cloud.clock.now()

    # --- finding -----------------------------------------------------------------------------------------------------

    def collection(self, plural):
        return getattr(self, plural)

    def get(self, plural, ident):
        """By ID, or not_found."""
        found = self.collection(plural).get(int(ident)) if str(ident).isdigit() else None
        if found is None:
            raise ApiError("not_found", f"{plural[:-1].replace('_', ' ')} with ID '{ident}' not found")
        return found

    def named(self, plural, name):
        """For tests: the one of that name, or LookupError."""
        for one in self.collection(plural).values():
            if one.name == name:
                return one
        raise LookupError(f"no {plural} named {name!r}")

    def check_unique(self, plural, name, but=None):
        """The API compares names as they are written."""
        if any(one.name == name and one is not but for one in self.collection(plural).values()):
            raise ApiError("uniqueness_error", f"name {name!r} is already used",
                           {"fields": [{"name": "name", "messages": ["is already used"]}]})

    # --- for tests: what is there, without a request -------------------------------------------------------------------

    def add_server(self, name, ip=None, ipv6=None, networks=(), private_ip=None, type="cx22", location="fsn1",
                   status="running", labels=None, public_ipv4=True, public_ipv6=True):
        """A server that runs. networks are joined, each at its next free address, or the first at private_ip."""
        from .servers import Server

        with self.cloud.lock:
            v4, v6 = self.public_pair()
            server_type = find(self.cloud.server_types, type)
            server = Server(self, name, server_type, self.cloud.images[0], find(self.cloud.locations, location),
                            (ip or v4) if public_ipv4 else None, (ipv6 or v6) if public_ipv6 else None, labels)
            server.status = status
            for number, network in enumerate(networks):
                server.join(network, network.ip_for(private_ip if number == 0 else None, None))
            self.servers[server.id] = server
            return server

    def add_network(self, name="net", ip_range="10.0.0.0/8", subnet="10.0.0.0/16", zone="eu-central", labels=None):
        """A network of one subnet, or of none if subnet is None."""
        from .networks import Network

        with self.cloud.lock:
            network = Network(self, name, ip_range, labels)
            if subnet:
                network.subnets.append(network.new_subnet({"type": "cloud", "ip_range": subnet, "network_zone": zone}))
            self.networks[network.id] = network
            return network

    def add_load_balancer(self, name, type="lb11", location="fsn1", labels=None, network=None, services=(), targets=()):
        """A balancer with its addresses. services and targets are bodies as the API takes them."""
        from .balancers import Balancer

        with self.cloud.lock:
            balancer = Balancer(self, name, find(self.cloud.load_balancer_types, type), find(self.cloud.locations, location),
                                labels)
            balancer.get_addresses()
            if network:
                balancer.private_net.append({"network": network.id, "ip": network.free_ip(balancer.location["network_zone"])})
            for one in services:
                balancer.services.append(balancer.new_service(one, balancer.services))
            for one in targets:
                balancer.targets.append(balancer.new_target(one, balancer.targets, balancer.network_ids, True))
            self.load_balancers[balancer.id] = balancer
            return balancer

    def add_primary_ip(self, name, type="ipv4", location="fsn1", auto_delete=False):
        """A Primary IP that is assigned to nothing."""
        from .primary_ips import PrimaryIp

        with self.cloud.lock:
            made = PrimaryIp(self, name, type, find(self.cloud.locations, location), auto_delete)
            self.primary_ips[made.id] = made
            return made

    def delete_server(self, name):
        with self.cloud.lock:
            self.named("servers", name).delete()

    def server(self, name):
        return self.named("servers", name)

    def load_balancer(self, name):
        return self.named("load_balancers", name)

    def power(self, name, status):
        """running, off, or any other status that the API knows."""
        self.named("servers", name).status = status

    def drop_dead_targets(self):
        """Balancers forget targets whose server is gone."""
        with self.cloud.lock:
            for one in self.load_balancers.values():
                one.targets = [target for target in one.targets
                               if target["type"] != "server" or target["server"]["id"] in self.servers]

    def state(self):
        """The whole project as the API would show it, for comparison: {"servers": {name: …}, …}."""
        with self.cloud.lock:
            self.settle()
            return {plural: {one.name: one.json() for one in self.collection(plural).values()}
                    for plural in ("servers", "networks", "load_balancers", "certificates", "primary_ips")}

    # --- addresses ---------------------------------------------------------------------------------------------------

    def cloud_addresses(self):
        """The public IPv4 addresses of this project's servers and balancers."""
        return {one.ipv4 for things in (self.servers, self.load_balancers) for one in things.values()}

    def public_pair(self):
        """The next free IPv4 address and IPv6 /64."""
        self._public += 1
        number = (self.number << 16) + self._public
        v4 = ipaddress.IPv4Address("198.18.0.0") + number
        v6 = ipaddress.IPv6Address("2001:db8::") + (number << 64)
        return str(v4), f"{v6}/64"

    # --- actions -----------------------------------------------------------------------------------------------------

    def busy(self, resource):
        return any(resource.key in action.holds for action in self._running)

    def check_free(self, *resources):
        """Refuses as the API does while an action runs on one of them."""
        for one in resources:
            if self.busy(one):
                code = TRANSIENT.get(one.kind, "locked")
                raise ApiError(code, f"{one.kind.replace('_', ' ')} with ID '{one.id}' is busy with another action")

    def act(self, call, command, resources, effect=None, holds=None):
        """Starts an action that does effect() at its start or end, as the cloud's settings say. Returns the Action.

        holds is what it keeps busy, by default all resources. The request's fault may make it fail or never end; then
        the effect does not happen.
        """
        cloud = self.cloud
        now = cloud.clock.now()
        outcome, code, message = (call.request.outcome if call else None) or (None, None, None)
        failure = {"code": code, "message": message} if outcome == "error" else None
        due = None if outcome == "hangs" else now + cloud.action_s
        if outcome is None and effect and (cloud.effects == "start" or cloud.action_s == 0):
            effect()
            effect = None
        held = [one.key for one in (resources if holds is None else holds)]
        action = Action(cloud.next_id(), command, [one.key for one in resources], held, now, due,
                        None if outcome == "error" else effect, failure)
        self.actions[action.id] = action
        self._running.append(action)
        self.settle()
        return action

    def settle(self):
        """Ends the actions whose time has come."""
        now = self.cloud.clock.now()
        for action in sorted((one for one in self._running if one.due is not None and one.due <= now),
                             key=lambda one: (one.due, one.id)):
            self._running.remove(action)
            if action.effect:
                action.effect()
                action.effect = None
            action.status = "error" if action.failure else "success"
            action.finished = action.due

    def release(self):
        """Lets actions that hang go on."""
        with self.cloud.lock:
            for action in self._running:
                if action.due is None:
                    action.due = self.cloud.clock.now()
            self.settle()

    # --- requests per hour -------------------------------------------------------------------------------------------

    def take_token(self):
        """Counts one more request. Returns whether it may be answered."""
        self._refill()
        if self.tokens_left < 1:
            return False
        self.tokens_left -= 1
        return True

    def rate_headers(self):
        cloud = self.cloud
        missing = cloud.rate_limit - self.tokens_left
        reset = cloud.clock.now() + missing * 3600 / cloud.rate_limit
        return {"RateLimit-Limit": cloud.rate_limit, "RateLimit-Remaining": int(self.tokens_left),
                "RateLimit-Reset": int(reset)}

    def _refill(self):
        cloud = self.cloud
        now = cloud.clock.now()
        self.tokens_left = min(cloud.rate_limit, self.tokens_left + (now - self.filled_at) * cloud.rate_limit / 3600)
        self.filled_at = now
