"""The model of the example cloud's API that the simulation uses answers as the simulated cloud of the other scenarios does.

A seed makes a sequence of requests, right and wrong, which goes to both. All answers have to be equal.
"""
import json

import pytest
from lib.api import Api
from lib.model import Choices, Model, compare
from sim.example import Example

pytestmark = pytest.mark.plain

REQUESTS = 1000


class Side:
    """One of the two. Both number what is made in the same way."""

    def __init__(self, api):
        self.api = api

    def send(self, method, path, body=None, token=None):
        right, self.api.token = self.api.token, token or self.api.token
        answer = self.api.request(method, f"/v1{path}", body)
        self.api.token = right
        return answer.status, json.loads(answer.body or "null")


class Sequence(Choices):
    def kind(self):
        return self.one("balancers", "balancers", "balancers", "machines")

    def item(self):
        return f"/{self.kind()}/{self.random.randrange(7, 25)}"

    def body(self, is_new):
        body = {"name": self.one(*"abcdefgh"), "label": self.one("", "x"), "ports": self.one([], ["80:30080"]), "targets": ["7", "8"]}
        for name in list(body):
            if self.chance(0.3) and not (is_new and name == "name"):
                del body[name]
        return body

    def page(self):
        return f"/{self.kind()}?page={self.random.randrange(1, 5)}&size={self.one(1, 2, 50)}"

    def next(self):
        request = self.one(
            lambda: ("POST", f"/{self.kind()}", self.body(is_new=True)),
            lambda: ("POST", f"/{self.kind()}", self.body(is_new=True)),
            lambda: ("PUT", self.item(), self.body(is_new=False)),
            lambda: ("DELETE", self.item()),
            lambda: ("GET", self.item()),
            lambda: ("GET", self.page()),
            lambda: ("GET", self.page()),
            lambda: (self.one("GET", "POST"), self.one("/networks", "/balancers", "/machines/7"), {"name": "a"}, "wrong"),
            lambda: ("GET", self.one("/networks", "/networks/7", "/balancers/x")),
        )()
        return lambda side: request


def test_the_model_answers_as_the_simulated_cloud(seed=1):
    sequence = Sequence(seed)
    with Example() as cloud, Model("example", cloud.token) as model, Api(cloud.url, None, token=cloud.token) as api:
        for _ in range(REQUESTS):
            compare((Side(api), Side(model)), sequence.next())
