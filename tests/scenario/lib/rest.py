"""A client of a simulated cloud that sends only what the test says."""
import http.client
import json
from urllib.parse import urlencode, urlsplit


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        """The error's code, None for a good answer."""
        return self.json()["error"]["code"] if self.status >= 400 else None

    @property
    def fields(self):
        """The names of the fields in invalid_input."""
        details = self.json()["error"]["details"] or {}
        return [one["name"] for one in details.get("fields", [])]


class Rest:
    """rest("GET", "/servers", name="n1"), rest("POST", "/servers", {"name": …}). A query's list value is repeated."""

    def __init__(self, endpoint, token=None, authorization=None):
        parts = urlsplit(endpoint.url)
        self.base = parts.path
        self.authorization = authorization or (token and f"Bearer {token}")
        self.connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)

    def __call__(self, method, path, body=None, **query):
        headers = {"Authorization": self.authorization} if self.authorization else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
            body = body if isinstance(body, (str, bytes)) else json.dumps(body)
        target = self.base + path + (f"?{urlencode(query, doseq=True)}" if query else "")
        try:
            self.connection.request(method, target, body, headers)
            return Answer(self.connection.getresponse())
        except (OSError, http.client.HTTPException):
            self.connection.close()
            raise

    def good(self, method, path, body=None, **query):
        """The decoded body; the answer must be a good one."""
        answer = self(method, path, body, **query)
        assert answer.status < 300, (method, path, answer.status, answer.body[:500])
        return answer.json() if answer.body else None

    def close(self):
        self.connection.close()
