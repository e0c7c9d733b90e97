"""The Hetzner Cloud API on this machine.

    with HCloud() as cloud:
        cloud.add_server("n1")
        cloud.fault("GET", "/servers", faults.locked())
        run_something(HCLOUD_ENDPOINT=cloud.url, HCLOUD_TOKEN=cloud.token)
        assert cloud.calls("GET", "/servers") == 2

    python3 -m tests.sim.hcloud --help         runs it to play with
"""
import argparse
import copy
import itertools
import secrets
import threading

from . import balancers, catalog, certificates, faults, networks, others, primary_ips, servers  # noqa: F401 (they serve the paths)
from .endpoint import Endpoint, Reply
from .project import ApiError, Project, stamp
from .routing import HANDLERS, call_of

FIRST_ID = 4_300_000_001  # larger than 32 bits, so that no client relies on less
TOKEN_CHARACTERS = 64


class HCloud(Endpoint):
    """The API, with one project whose token is .token. Names that it has not are looked up in that project.

    action_s: how long actions take, 0 for those that are finished in the answer; effects: whether what they do is seen at
    their "start" or "end". rate_limit: requests an hour. datacenter: "absent" from servers, "null" or "present".
    targets_outlive_servers: balancers keep targets whose server was deleted, until project.drop_dead_targets().
    correlation: answers carry X-Correlation-Id. deletion_acts: deleting a balancer is an action, as since October 2026 (the
    specification knows 204 without a body). takes_primary_ips: a new balancer may be given Primary IPs, likewise.
    explains_health: unhealthy targets say why. All may be changed at any time.
    """

    base = "/v1"

    def __init__(self, action_s=0.0, effects="end", rate_limit=3600, first_id=FIRST_ID, **options):
        self.lock = threading.RLock()
        self.action_s = action_s
        self.effects = effects
        self.rate_limit = rate_limit
        self.datacenter = "absent"
        self.targets_outlive_servers = False
        self.correlation = False
        self.deletion_acts = True
        self.takes_primary_ips = True
        self.explains_health = True
        self._ids = itertools.count(first_id)
        self.locations = copy.deepcopy(catalog.LOCATIONS)
        self.datacenters = copy.deepcopy(catalog.DATACENTERS)
        self.server_types = copy.deepcopy(catalog.SERVER_TYPES)
        self.load_balancer_types = copy.deepcopy(catalog.LOAD_BALANCER_TYPES)
        self.images = copy.deepcopy(catalog.IMAGES)
        self._tokens = {}  # token -> (project, may it write)
        self._numbers = itertools.count()
        super().__init__(**options)
        self.project, self.token = self.add_project()

    def __getattr__(self, name):
        """add_server(), servers, networks, … are those of the first project."""
        if name.startswith("_") or name == "project":
            raise AttributeError(name)
        return getattr(self.project, name)

    def be_former(self):
        """From now on the API is as it was before October 2026."""
        self.deletion_acts = self.takes_primary_ips = self.explains_health = False

    # --- tokens ------------------------------------------------------------------------------------------------------

    def add_project(self):
        """Another project, which shares nothing with the first. Returns it and its token."""
        project = Project(self, next(self._numbers))
        return project, self.add_token(project)

    def add_token(self, project=None, may_write=True):
        """One more token of the project, the first one by default."""
        token = secrets.token_hex(TOKEN_CHARACTERS // 2)
        self._tokens[token] = (project or self.project, may_write)
        return token

    def revoke(self, token):
        del self._tokens[token]

    def rotate_token(self):
        """The token is refused from now on. Returns the new one, which is also .token."""
        self.revoke(self.token)
        self.token = self.add_token()
        return self.token

    # --- time and numbers --------------------------------------------------------------------------------------------

    def next_id(self):
        return next(self._ids)

    def now_text(self):
        return stamp(self.clock.now())

    def advance(self, seconds):
        """Lets that much time pass immediately: actions end, the bucket of requests fills."""
        self.clock.advance(seconds)

    # --- answers -----------------------------------------------------------------------------------------------------

    def answer(self, request):
        headers = {"X-Correlation-Id": secrets.token_hex(8)} if self.correlation else {}
        try:
            with self.lock:
                return self._answer(request, headers)
        except ApiError as error:
            return Reply(error.status, faults.error_body(error.code, error.message, error.details), headers)

    def _answer(self, request, headers):
        project, may_write = self._authenticate(request)
        allowed = project.take_token()
        headers.update(project.rate_headers())
        if not allowed:
            raise ApiError("rate_limit_exceeded", "limit of requests per hour reached")
        if not request.has_base:
            raise ApiError("not_found", "page not found")
        if request.is_write and not may_write:
            raise ApiError("forbidden", "the token may only read")  # token_readonly until 2026
        project.settle()
        call = call_of(request, self.clock.now())
        body = HANDLERS[request.method, call.path](project, call)
        return Reply(call.status, body, {**headers, **call.headers})

    def _authenticate(self, request):
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        found = self._tokens.get(token.strip()) if kind.lower() == "bearer" else None
        if found is None:
            raise ApiError("unauthorized", "unable to authenticate")
        return found


# --- by hand -------------------------------------------------------------------------------------------------------------


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Runs a simulated Hetzner Cloud API until Ctrl-C.")
    parser.add_argument("--port", type=int, default=0, help="default: any that is free")
    parser.add_argument("--servers", type=int, default=3, metavar="N", help="servers named n1 to nN (default: 3)")
    parser.add_argument("--latency", type=float, default=0.02, metavar="SECONDS", help="of each answer (default: 0.02)")
    parser.add_argument("--action", type=float, default=0.1, metavar="SECONDS", help="how long actions take (default: 0.1)")
    parser.add_argument("--rate-limit", type=int, default=3600, metavar="N", help="requests an hour (default: 3600)")
    parser.add_argument("--quiet", action="store_true", help="do not print the requests")
    options = parser.parse_args(arguments)
    with HCloud(port=options.port, latency_s=options.latency, action_s=options.action,
                rate_limit=options.rate_limit) as cloud:
        network = cloud.add_network("net")
        for number in range(1, options.servers + 1):
            cloud.add_server(f"n{number}", networks=[network])
        print(f"export HCLOUD_ENDPOINT={cloud.url} HCLOUD_TOKEN={cloud.token} HCLOUD_NETWORK=net", flush=True)
        cloud.run_until_interrupted(options.quiet)


if __name__ == "__main__":
    main()
