"""The API of the example cloud (src/providers/example/provider.c), for scenarios and for trying things by hand.

    with Example() as cloud:
        cloud.add("machines", name="worker-7")
        run_something(EXAMPLE_URL=cloud.url, EXAMPLE_TOKEN=cloud.token)

    python3 -m tests.sim.example         prints what to export, and runs until it is ended
"""
import contextlib
import itertools
import secrets
import signal
import threading

from .endpoint import Endpoint, Reply

PAGE_MAX = 2  # items; small, so that a few machines need a second page
FIELDS = {
    "machines": {"state": "running", "type": "small", "zone": "a", "ip": "10.0.0.{id}"},
    "balancers": {"label": "", "ports": [], "targets": [], "ip": "198.51.100.{id}"},
}


class Example(Endpoint):
    base = "/v1"

    def __init__(self, **options):
        self.lock = threading.Lock()
        self.token = secrets.token_hex(16)
        self.items = {kind: {} for kind in FIELDS}  # by id
        self._ids = itertools.count(7)
        super().__init__(**options)

    def add(self, kind, **fields):
        item = {"id": str(next(self._ids)), **FIELDS[kind], **fields}
        item["ip"] = item["ip"].format(id=item["id"])
        self.items[kind][item["id"]] = item
        return item

    def answer(self, request):
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return error(401, "the token is wrong")
        kind, _, number = request.path.strip("/").partition("/")
        with self.lock:
            if kind not in FIELDS or (number and number not in self.items[kind]):
                return error(404, f"there is no {request.path}")
            return self.act(request, kind, self.items[kind], number)

    def act(self, request, kind, items, number):
        if request.method == "DELETE":
            del items[number]
            return Reply(204)
        if request.method == "PUT":
            items[number].update(request.json())
        elif request.method == "POST":
            if request.json()["name"] in [one["name"] for one in items.values()]:
                return error(409, "the name is in use")
            return Reply(201, self.add(kind, **request.json()))
        elif not number:
            page, size = int(request.query["page"]), min(int(request.query["size"]), PAGE_MAX)
            return Reply(200, {kind: list(items.values())[(page - 1) * size:page * size], "total": len(items)})
        return Reply(200, items[number])


def error(status, message):
    return Reply(status, {"message": message})


def main():
    with Example() as cloud, contextlib.suppress(KeyboardInterrupt):
        for name in ("worker-7", "worker-8", "worker-9"):
            cloud.add("machines", name=name)
        print(f"export EXAMPLE_URL={cloud.url} EXAMPLE_TOKEN={cloud.token}", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
