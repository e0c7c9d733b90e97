"""The Brightbox API of one region on this machine.

    with Brightbox() as cloud:
        server = cloud.account.add_server()
        cloud.fault("GET", "/1.0/load_balancers", plain(503))
        run_something(**cloud.environment())
        assert cloud.calls("GET", "/1.0/servers/{id}") == 2

    python3 -m tests.sim.brightbox --help       runs it to try it by hand

account.py has the objects, tables.py the requests that are understood. Where Brightbox documents nothing,
the stricter choice is taken: docs/brightbox.md lists these choices.
"""
import base64
import hashlib
import itertools
import json
import random
import re
import secrets
import threading
from urllib.parse import parse_qsl, unquote_plus

from .. import faults
from ..endpoint import Endpoint, Reply
from .account import CODES, COLLECTIONS, Account, ApiError, missing, unprocessable
from .tables import ROWS

ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
APPLICATION = ("app-dkmch", "uogoelzgt0nwawb")  # the public identity of the official controller
UNAUTHORIZED_CLIENT = ("The authenticated client is not authorized to use the access grant type provided.")
SWITCHES = ("lb_build_s", "lb_destroy_s", "map_delay_s", "acme_delay_s", "server_delay_s", "linger_s", "token_s",
            "lb_delete_leaves_cloud_ips_mapped", "map_never_completes", "acme_status", "fail_delete", "limits")


class Refused(Exception):
    """An answer of the token endpoint, or to a token that is not good."""

    def __init__(self, status, error, description=None, headers=None):
        super().__init__(error)
        self.body = {"error": error, **({"error_description": description} if description else {})}
        self.status = status
        self.headers = headers or {}


def invalid_token(kind, description):
    return Refused(401, kind, description, {"WWW-Authenticate": f'OAuth error="{kind}"'})


class Token:
    def __init__(self, accounts, expires, is_of_user):
        self.accounts = accounts
        self.expires = expires
        self.is_of_user = is_of_user


class Brightbox(Endpoint):
    """The API, with one account. client and secret are those of its API client, user and password those of
    a user who may use the public application.

    How long changes take, 0 for those that are finished in the answer: lb_build_s, lb_destroy_s,
    map_delay_s, acme_delay_s, server_delay_s; token_s is how long a token lives, linger_s how long a deleted
    balancer stays in lists. lb_delete_leaves_cloud_ips_mapped and map_never_completes are mistakes of the cloud.
    acme_status: {domain: (status, message)}, "valid" where there is none. fail_delete: ids whose DELETE is
    answered with 409. limits: {collection: how many there may be}. hosts_file: a path to which hosts() is
    written with each change. All may be changed at any time.
    """

    ids = re.compile(r"/[a-z]{3}-[0-9a-z]{5,}")

    def __init__(self, region="gb1", seed=1, **options):
        self.lock = threading.RLock()
        self.region = region
        self._random = random.Random(seed)
        self._request_ids = itertools.count(1)
        self.lb_build_s = self.lb_destroy_s = self.map_delay_s = self.acme_delay_s = self.server_delay_s = 0
        self.linger_s = 3600
        self.token_s = 7200
        self.lb_delete_leaves_cloud_ips_mapped = self.map_never_completes = False
        self.acme_status = {}
        self.fail_delete = set()
        self.limits = {}
        self.hosts_file = None
        self._clients = {}  # id -> (secret, account)
        self._users = {}  # name -> (password, accounts)
        self._tokens = {}
        self._refresh = {}  # refresh token -> accounts
        self._stranger = None  # an empty account, see other_account()
        self.accounts = []
        super().__init__(**options)
        self.account = self.add_account()
        self.client, self.secret = self.add_client(self.account)
        self.user, self.password = "user@example.com", "correct horse"
        self._users[self.user] = (self.password, [self.account])

    # --- accounts and credentials ------------------------------------------------------------------------------------

    def add_account(self, name="Example"):
        with self.lock:
            self.accounts.append(Account(self, name))
            return self.accounts[-1]

    def add_client(self, account):
        with self.lock:
            ident = self._new_ident("cli")
            self._clients[ident] = (self._hex(), account)
            return ident, self._clients[ident][0]

    def move_client(self, account):
        """The credentials are those of another account from now on, as if the wrong ones had been configured."""
        with self.lock:
            self._clients[self.client] = (self.secret, account)
            self.revoke_tokens()

    def revoke_tokens(self):
        """From now on every token that was given out is refused."""
        with self.lock:
            self._tokens.clear()

    def change_secret(self):
        """The client's former secret is refused from now on. Returns the new one."""
        with self.lock:
            self.secret = self._hex()
            self._clients[self.client] = (self.secret, self._clients[self.client][1])
            return self.secret

    def environment(self, with_user=False):
        """The variables of a program that is to use it."""
        found = {"BRIGHTBOX_API_URL": self.url + "/"}
        if with_user:
            return {**found, "BRIGHTBOX_USER_NAME": self.user, "BRIGHTBOX_PASSWORD": self.password,
                    "BRIGHTBOX_ACCOUNT": self.account.id}
        return {**found, "BRIGHTBOX_CLIENT": self.client, "BRIGHTBOX_CLIENT_SECRET": self.secret}

    # --- numbers and time --------------------------------------------------------------------------------------------

    def now(self):
        return self.clock.now()

    def advance(self, seconds):
        """Lets that much time pass without waiting."""
        self.clock.advance(seconds)

    def new_id(self, collection):
        return self._new_ident(CODES[collection])

    def _new_ident(self, code):
        return f"{code}-" + "".join(self._random.choice(ALPHABET) for _ in range(5))

    def _hex(self):
        return hashlib.sha1(self._random.randbytes(16)).hexdigest()

    # --- names -------------------------------------------------------------------------------------------------------

    def hosts(self):
        """A hosts file with the names of all cloud IPs, for a program that resolves them."""
        with self.lock:
            rows = []
            for account in self.accounts:
                for one in account.every("cloud_ips"):
                    for name in filter(None, (one["fqdn"], one["reverse_dns"])):
                        rows += [f"{one['public_ipv4']} {name}", f"{one['public_ipv6']} {name}"]
            return "".join(f"{row}\n" for row in rows)

    def _write_hosts(self):
        """The file is replaced, so that a program that reads it meanwhile finds all names."""
        new = self.hosts_file.with_name(f"{self.hosts_file.name}.new")
        new.write_text(self.hosts())
        new.replace(self.hosts_file)

    # --- answers -----------------------------------------------------------------------------------------------------

    def answer(self, request):
        headers = {"X-Request-Id": f"{next(self._request_ids):032x}"}
        try:
            with self.lock:
                if request.path.startswith("/_sim/"):
                    return self._control(request)
                if request.path.rstrip("/") == "/token":
                    return self._token(request, headers)
                return self._api(request, headers)
        except ApiError as error:
            return Reply(error.status, error.body, headers)
        except Refused as error:
            return Reply(error.status, error.body, {**headers, **error.headers})

    def _api(self, request, headers):
        account = self._authenticate(request)
        if request.outcome == "stranger":
            account = self._stranger = self._stranger or Account(self, "Stranger")
        account.settle()
        path, ident, row = self._find(request)
        body = self._body(request, row)
        reply = OPERATIONS[request.method, path](self, account, ident, body)
        if row.made:
            headers["Location"] = reply["url"]
        if request.is_write and self.hosts_file:
            self._write_hosts()
        return Reply(row.status, json.dumps(reply).encode(),
                     {**headers, "Content-Type": "application/json; charset=utf-8"})

    def _find(self, request):
        parts = request.path.strip("/").split("/")
        if parts[0] == "1.0" and 2 <= len(parts) <= 4:
            ident = parts[2] if len(parts) > 2 else None
            path = "/".join([parts[1], *(["{id}"] if ident else []), *parts[3:]])
            row = ROWS.get((request.method, path))
            if row:
                return path, ident, row
        raise missing()

    def _body(self, request, row):
        if row.body is None:
            if request.body.strip() not in (b"", b"{}", b"null"):
                raise unprocessable("This request takes no body")
            return {}
        if request.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
            raise ApiError(400, "bad_request", "The body is not announced as application/json")
        try:
            body = json.loads(request.body)
        except ValueError:
            raise ApiError(400, "bad_request", "The body is not valid JSON") from None
        problems = []
        row.body.check(body, "", problems)
        if problems:
            raise unprocessable(*(f"{where} {text}".strip() for where, text in problems))
        return body

    def _authenticate(self, request):
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        token = self._tokens.get(text.strip()) if scheme.lower() in ("bearer", "oauth") else None
        if token is None:
            raise invalid_token("invalid_token", "The OAuth token can not be found")
        if self.now() >= token.expires:
            raise invalid_token("expired_token", "OAuth token presented has expired and is no longer valid")
        wanted = request.query.get("account_id")
        if set(request.query) - {"account_id"}:
            raise unprocessable("Unknown query parameter")
        if wanted and token.is_of_user:
            for account in token.accounts:
                if account.id == wanted:
                    return account
            raise ApiError(403, "Forbidden", "This user has no access to the account")
        return token.accounts[0]

    # --- tokens ------------------------------------------------------------------------------------------------------

    def _token(self, request, headers):
        if request.method != "POST":
            raise missing()
        form = self._form(request)
        client, secret = self._client_of(request, form)
        grant = form.get("grant_type")
        if grant == "client_credentials":
            return self._give(self._accounts_of_client(client, secret), False, headers)
        if grant not in ("password", "refresh_token"):
            raise Refused(400, "unsupported_grant_type")
        if (client, secret) != APPLICATION:
            raise self._invalid_client()
        if grant == "refresh_token":
            accounts = self._refresh.pop(form.get("refresh_token"), None)
        else:
            password, accounts = self._users.get(form.get("username"), (None, None))
            accounts = accounts if password == form.get("password") else None
        if accounts is None:
            raise self._invalid_client()
        return self._give(accounts, True, headers)

    def _form(self, request):
        kind = request.headers.get("Content-Type", "").partition(";")[0].strip()
        if kind == "application/json":
            try:
                return json.loads(request.body)
            except ValueError:
                raise Refused(400, "invalid_request") from None
        return dict(parse_qsl(request.body.decode(errors="replace"), keep_blank_values=True))

    def _client_of(self, request, form):
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "basic":
            return form.get("client_id"), form.get("client_secret")
        client, _, secret = base64.b64decode(text).decode(errors="replace").partition(":")
        return unquote_plus(client), unquote_plus(secret)

    def _accounts_of_client(self, client, secret):
        if (client, secret) == APPLICATION:
            raise Refused(400, "unauthorized_client", UNAUTHORIZED_CLIENT)
        known, account = self._clients.get(client, (None, None))
        if known is None or known != secret:
            raise self._invalid_client()
        return [account]

    def _invalid_client(self):
        realm = f'Basic realm="api.{self.region}.brightbox.com"'
        return Refused(401, "invalid_client", None, {"WWW-Authenticate": realm})

    def _give(self, accounts, is_of_user, headers):
        text = secrets.token_hex(20)
        self._tokens[text] = Token(accounts, self.now() + self.token_s, is_of_user)
        body = {"access_token": text, "token_type": "Bearer", "expires_in": self.token_s, "scope": "infrastructure, orbit"}
        if is_of_user:
            body["refresh_token"] = secrets.token_hex(20)
            self._refresh[body["refresh_token"]] = accounts
        return Reply(200, json.dumps(body).encode(), {
            **headers, "Content-Type": "application/json; charset=utf-8", "X-OAuth-Scopes": "infrastructure, orbit"})

    # --- controls over HTTP, for a simulator in another process ------------------------------------------------------

    def _control(self, request):
        what = request.path.removeprefix("/_sim/")
        body = request.json() if request.body else {}
        if what == "state":
            if request.method == "PUT":
                self.load(body)
            return Reply(200, self.dump())
        if what == "log":
            if request.method == "DELETE":
                self.forget()
            log = [{"method": one.method, "path": one.path, "body": one.body.decode(errors="replace"), "status": one.status}
                   for one in self.requests() if not one.path.startswith("/_sim/")]
            return Reply(200, log)
        if what == "clock":
            self.advance(body.get("advance_s", 0))
        elif what == "token/revoke":
            self.revoke_tokens()
        elif what == "fault" and request.method == "DELETE":
            self.clear_faults()
        elif what == "fault":
            self.inject(body)
        elif what == "switches":
            self.switch(body)
        else:
            raise missing()
        return Reply(200, {})

    def inject(self, record):
        """A fault as JSON says it: {"method": …, "path": …, "kind": …, "times": …}. In the path, * is any text."""
        path = record.get("path")
        self.fault(record.get("method"), path and path.replace("*", ".*"), fault_of(self, record), times=record.get("times", 1))

    def switch(self, values):
        for name, value in values.items():
            if name == "faults":
                for record in value:
                    self.inject(record)
            elif name not in SWITCHES:
                raise unprocessable(f"{name} is not a switch: {', '.join((*SWITCHES, 'faults'))}")
            else:
                setattr(self, name, set(value) if name == "fail_delete" else value)

    def dump(self):
        """The first account's objects: {collection: [object, …]}."""
        self.account.settle()
        return {collection: self.account.every(collection) for collection in COLLECTIONS}

    def load(self, state):
        """Replaces the collections that are named. Members that an object lacks get their usual values; a server names
        its zone and its type by id or by handle. "switches" is as for switch()."""
        state = dict(state)
        self.switch(state.pop("switches", {}))
        for collection, given in state.items():
            if collection not in COLLECTIONS:
                raise unprocessable(f"{collection} is not a collection: {', '.join(COLLECTIONS)}")
            self.account.objects[collection].clear()
            for one in given:
                if collection == "servers":
                    self.account.add_server(**one)
                else:
                    self.account.add(collection, **one)


def fault_of(endpoint, given):
    """The action for Endpoint.fault() that a JSON object describes."""
    kind = given.get("kind", "status")
    if kind == "status":
        return faults.plain(given.get("status", 503), given.get("body", ""))
    if kind == "delay":
        return faults.delay(endpoint, given["seconds"])
    if kind == "cut":
        return faults.cut_body(given.get("length", 10))
    if kind in FAULTS:
        return FAULTS[kind]()
    raise unprocessable(f"kind must be one of status, delay, cut, {', '.join(FAULTS)}")


def refuse(status, name="server_error", *errors):
    """An action for Endpoint.fault(): an error as the API writes it."""
    return lambda request, go: Reply(status, {"error_name": name, "errors": list(errors) or [f"{name} on purpose"]})


def empty_list():
    """An action for Endpoint.fault(): a valid list without entries."""
    return lambda request, go: Reply(200, b"[]", {"Content-Type": "application/json; charset=utf-8"})


def other_account():
    """An action for Endpoint.fault(): the answer of an account that has nothing, as if the token were its."""

    def act(request, go):
        request.outcome = "stranger"
        return go()

    return act


FAULTS = {"reset": faults.reset, "bad_json": faults.bad_json, "empty_list": empty_list, "other_account": other_account}


# --- what each request does ----------------------------------------------------------------------------------------------


def _list(collection):
    return lambda api, account, ident, body: [account.full(collection, one) for one in account.every(collection)]


def _get(collection):
    return lambda api, account, ident, body: account.full(collection, account.get(collection, ident))


def _on(collection, change):
    """change(account, object, body) of the object with that id."""
    return lambda api, account, ident, body: change(account, account.get(collection, ident), body)


def _delete(collection, change):
    def run(api, account, ident, body):
        one = account.get(collection, ident)
        if ident in api.fail_delete:
            raise ApiError(409, "resource_conflict", "Unable to action the request due to conflicting states")
        return change(account, one)

    return run


def _add(collection):
    def run(api, account, ident, body):
        account.check_limit(collection)
        return account.full(collection, account.add(collection, **body))

    return run


def _add_policy(api, account, ident, body):
    group = body.pop("server_group", None)
    if group:
        account.get("server_groups", group)
    policy = account.add("firewall_policies", **body)
    return account.apply_policy(policy, group) if group else account.full("firewall_policies", policy)


def _add_rule(api, account, ident, body):
    account.get("firewall_policies", body["firewall_policy"])
    return account.full("firewall_rules", account.add("firewall_rules", **body))


def _change(collection):
    def run(account, one, body):
        if collection == "firewall_policies" and one["default"] and body.get("name", one["name"]) != one["name"]:
            raise unprocessable("default firewall policy can not be renamed")
        if "firewall_policy" in body:
            account.get("firewall_policies", body["firewall_policy"])
        one.update(body)
        return account.full(collection, one)

    return _on(collection, run)


def _destroy_rule(account, rule):
    return account.full("firewall_rules", account.objects["firewall_rules"].pop(rule["id"]))


OPERATIONS = {
    ("GET", "accounts"): lambda api, account, ident, body: [account.show()],
    ("GET", "account"): lambda api, account, ident, body: account.show(),
    **{("GET", name): _list(name) for name in COLLECTIONS if name != "firewall_rules"},
    **{("GET", f"{name}/{{id}}"): _get(name) for name in COLLECTIONS},
    ("DELETE", "servers/{id}"): _delete("servers", Account.destroy_server),
    **{("POST", f"servers/{{id}}/{verb}"): _on("servers", lambda account, one, body, verb=verb: account.power(one, verb))
       for verb in ("start", "stop", "shutdown", "reboot", "reset")},
    ("POST", "load_balancers"): lambda api, account, ident, body: account.create_balancer(body),
    ("PUT", "load_balancers/{id}"): _on("load_balancers", Account.update_balancer),
    ("DELETE", "load_balancers/{id}"): _delete("load_balancers", Account.destroy_balancer),
    ("POST", "cloud_ips"): _add("cloud_ips"),
    ("PUT", "cloud_ips/{id}"): _change("cloud_ips"),
    ("POST", "cloud_ips/{id}/map"): _on("cloud_ips", lambda account, one, body: account.map_cloud_ip(one, body["destination"])),
    ("POST", "cloud_ips/{id}/unmap"): _on("cloud_ips", lambda account, one, body: account.unmap_cloud_ip(one)),
    ("DELETE", "cloud_ips/{id}"): _delete("cloud_ips", Account.destroy_cloud_ip),
    ("POST", "server_groups"): _add("server_groups"),
    ("POST", "server_groups/{id}/add_servers"): _on(
        "server_groups", lambda account, one, body: account.change_members(one, body["servers"], adds=True)),
    ("POST", "server_groups/{id}/remove_servers"): _on(
        "server_groups", lambda account, one, body: account.change_members(one, body["servers"], adds=False)),
    ("DELETE", "server_groups/{id}"): _delete("server_groups", Account.destroy_group),
    ("POST", "firewall_policies"): _add_policy,
    ("PUT", "firewall_policies/{id}"): _change("firewall_policies"),
    ("POST", "firewall_policies/{id}/apply_to"): _on(
        "firewall_policies", lambda account, one, body: account.apply_policy(one, body["server_group"])),
    ("DELETE", "firewall_policies/{id}"): _delete("firewall_policies", Account.destroy_policy),
    ("POST", "firewall_rules"): _add_rule,
    ("PUT", "firewall_rules/{id}"): _change("firewall_rules"),
    ("DELETE", "firewall_rules/{id}"): _delete("firewall_rules", _destroy_rule),
}
assert OPERATIONS.keys() == ROWS.keys()
