"""A client of ccmd's own servers."""
import http.client
import json
import ssl

from prometheus_client.parser import text_string_to_metric_families as parse_text


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)


class Serving:
    """Sends requests to 127.0.0.1:port; with TLS and a pair, with that client certificate. The server's certificate is not checked,
    since it is self-signed."""

    def __init__(self, port, pair=None, is_plain=False):
        self.port = port
        self.context = None
        if not is_plain:
            self.context = ssl.create_default_context()
            self.context.check_hostname = False
            self.context.verify_mode = ssl.CERT_NONE
            if pair:
                self.context.load_cert_chain(pair.certificate, pair.key)

    def request(self, method, path, body=None, headers=None):
        if self.context:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=self.context)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})


class Metrics:
    """One answer of /metrics. value() is the sum of the samples that match, or None."""

    def __init__(self, text, parse=parse_text):
        self.text = text
        self.families = {family.name: family for family in parse(text)}

    def samples(self, name):
        return [sample for family in self.families.values() for sample in family.samples if sample.name == name]

    def value(self, name, /, **labels):
        found = [one.value for one in self.samples(name) if all(one.labels.get(key) == value for key, value in labels.items())]
        return sum(found) if found else None
