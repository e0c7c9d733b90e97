"""The Robot web service on this machine: dedicated servers, as far as a cloud controller looks at them.

    with Robot() as robot:
        robot.add_server(321, "bm1", ip="203.0.113.9")
        run_something(ROBOT_ENDPOINT=robot.url, ROBOT_USER=robot.user, ROBOT_PASSWORD=robot.password)

Faults of faults.py that replace or delay an answer work here too; error() and too_many() here are Robot's own.
"""
import base64
import re

from .endpoint import Endpoint, Reply

DEFAULT_LIMIT = 200  # requests an hour
INTERVAL_S = 3600


class RobotServer:
    """operating_status: "running", "shut off", or "not supported". resettable: whether /reset knows it."""

    def __init__(self, number, name, ip, ipv6_net, product, dc, operating_status):
        self.number = number
        self.name = name
        self.ip = ip
        self.ipv6_net = ipv6_net
        self.product = product
        self.dc = dc
        self.operating_status = operating_status
        self.resettable = True

    def json(self):
        return {"server": {
            "server_ip": self.ip, "server_ipv6_net": self.ipv6_net, "server_number": self.number,
            "server_name": self.name, "product": self.product, "dc": self.dc, "traffic": "unlimited", "status": "ready",
            "cancelled": False, "paid_until": "2030-01-01", "ip": [self.ip] if self.ip else [],
            "subnet": [{"ip": self.ipv6_net, "mask": "64"}] if self.ipv6_net else [], "linked_storagebox": None,
        }}

    def reset_json(self):
        return {"reset": {
            "server_ip": self.ip, "server_ipv6_net": self.ipv6_net, "server_number": self.number,
            "type": ["sw", "hw", "man"], "operating_status": self.operating_status,
        }}


def error_reply(status, code, message, **more):
    return Reply(status, {"error": {"status": status, "code": code, "message": message, **more}})


def error(status, code, message="on purpose"):
    return lambda request, go: error_reply(status, code, message)


def too_many():
    return lambda request, go: _too_many(DEFAULT_LIMIT)


def _too_many(limit):
    return error_reply(403, "RATE_LIMIT_EXCEEDED", "rate limit exceeded", max_request=limit, interval=INTERVAL_S)


class Robot(Endpoint):
    """limit: requests that are answered within an hour, for each path without its number."""

    def __init__(self, user="#ws+test", password="a:b c", limit=DEFAULT_LIMIT, **options):
        self.user = user
        self.password = password
        self.limit = limit
        self.servers = {}
        self._asked = {}
        super().__init__(**options)

    def add_server(self, number, name, ip="203.0.113.9", ipv6_net="2001:db8:ffff::", product="AX41-NVMe", dc="FSN1-DC14",
                   operating_status="running"):
        server = RobotServer(number, name, ip, ipv6_net, product, dc, operating_status)
        self.servers[number] = server
        return server

    def delete_server(self, number):
        del self.servers[number]

    def answer(self, request):
        if not self._is_known(request):
            return error_reply(401, "UNAUTHORIZED", "Unauthorized")
        match = re.fullmatch(r"/(server|reset)(?:/([0-9]{1,18}))?", request.path)
        if request.method != "GET" or not match:
            return error_reply(404, "NOT_FOUND", "Not Found")
        if not self._may_ask(match[1]):
            return _too_many(self.limit)
        number = match[2] and int(match[2])
        return (self._server if match[1] == "server" else self._reset)(number)

    def _is_known(self, request):
        kind, _, secret = request.headers.get("Authorization", "").partition(" ")
        wanted = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        return kind.lower() == "basic" and secret.strip() == wanted

    def _may_ask(self, what):
        now = self.clock.now()
        recent = [at for at in self._asked.get(what, []) if at > now - INTERVAL_S]
        self._asked[what] = recent
        if len(recent) >= self.limit:
            return False
        recent.append(now)
        return True

    def _server(self, number):
        if number is None and not self.servers:
            return error_reply(404, "NOT_FOUND", "No server found")
        if number is None:
            return Reply(200, [one.json() for _, one in sorted(self.servers.items())])
        if number not in self.servers:
            return error_reply(404, "SERVER_NOT_FOUND", f"Server with id {number} not found")
        return Reply(200, self.servers[number].json())

    def _reset(self, number):
        able = {one.number: one for one in self.servers.values() if one.resettable}
        if number is None:
            return Reply(200, [one.reset_json() for _, one in sorted(able.items())])
        if number not in able:
            return error_reply(404, "RESET_NOT_AVAILABLE", "No reset option available")
        return Reply(200, able[number].reset_json())
