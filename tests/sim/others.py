"""Paths that are only read: the catalog, and the actions of all resources."""
from . import lists
from .catalog import find
from .project import ApiError
from .routing import serves

KINDS = {"servers": "server", "networks": "network", "load_balancers": "load_balancer", "certificates": "certificate",
         "primary_ips": "primary_ip"}


def _catalog(plural, singular):
    @serves("GET", f"/{plural}")
    def index(project, call):
        page = lists.page_of(call, plural, getattr(project.cloud, plural))
        return {**page, "recommendation": page[plural][0]["id"]} if plural == "datacenters" and page[plural] else page

    @serves("GET", f"/{plural}/{{id}}")
    def show(project, call):
        found = find(getattr(project.cloud, plural), int(call.id)) if call.id.isdigit() else None
        if found is None:
            raise ApiError("not_found", f"{singular.replace('_', ' ')} with ID '{call.id}' not found")
        return {singular: found}


for _plural in ("locations", "datacenters", "server_types", "load_balancer_types", "images"):
    _catalog(_plural, _plural[:-1])


@serves("GET", "/ssh_keys")
def ssh_keys(project, call):
    return lists.page_of(call, "ssh_keys", [])


# --- actions -------------------------------------------------------------------------------------------------------------


def _action(project, ident, kind=None, of=None):
    found = project.actions.get(int(ident)) if ident.isdigit() else None
    if found is None or not _about(found, kind, of):
        raise ApiError("not_found", f"action with ID '{ident}' not found")
    return found


def _about(action, kind, of=None):
    return kind is None or any(one[0] == kind and of in (None, one[1]) for one in action.resources)


def _rows(project, call, kind=None, of=None):
    """Those asked for by id, of which unknown ones are left out; else all of that kind, or of that one resource."""
    asked = call.every("id")
    found = [project.actions[int(one)] for one in dict.fromkeys(asked) if int(one) in project.actions]
    return [one for one in (found if asked else project.actions.values()) if _about(one, kind, of)]


@serves("GET", "/actions")
def actions(project, call):
    if not call.every("id"):
        raise ApiError("deprecated_api_endpoint", "listing actions needs the parameter id")
    return lists.page_of(call, "actions", _rows(project, call), call.render)


@serves("GET", "/actions/{id}")
def action(project, call):
    return {"action": call.render(_action(project, call.id))}


def _actions_of(plural, kind):
    @serves("GET", f"/{plural}/actions")
    def of_all(project, call):
        return lists.page_of(call, "actions", _rows(project, call, kind), call.render)

    @serves("GET", f"/{plural}/actions/{{id}}")
    def one_of_all(project, call):
        return {"action": call.render(_action(project, call.id, kind))}

    @serves("GET", f"/{plural}/{{id}}/actions")
    def of_one(project, call):
        resource = project.get(plural, call.id)
        return lists.page_of(call, "actions", _rows(project, call, kind, resource.id), call.render)

    @serves("GET", f"/{plural}/{{id}}/actions/{{action_id}}")
    def one_of_one(project, call):
        resource = project.get(plural, call.id)
        return {"action": call.render(_action(project, call.parts["action_id"], kind, resource.id))}


for _plural, _kind in KINDS.items():
    _actions_of(_plural, _kind)
