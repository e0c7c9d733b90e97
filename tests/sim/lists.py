"""Lists as the API gives them: filtered, sorted, in pages."""
from operator import attrgetter, itemgetter
from urllib.parse import urlencode

from . import selector
from .project import refused

DEFAULT_PER_PAGE = 25
MAX_PER_PAGE = 50


def page_of(call, key, things, render=None):
    """things are resources, actions, or rows of the catalog; render makes of one what is shown, default: the row itself."""
    things = in_order(call, wanted(call, things))
    page = int(call.one("page") or 1)
    per_page = min(int(call.one("per_page") or DEFAULT_PER_PAGE), MAX_PER_PAGE)
    last = max(1, -(-len(things) // per_page))
    shown = things[(page - 1) * per_page : page * per_page]
    pagination = {
        "page": page, "per_page": per_page, "previous_page": page - 1 if page > 1 else None,
        "next_page": page + 1 if page < last else None, "last_page": last, "total_entries": len(things),
    }
    call.headers["Link"] = _links(call, pagination)
    return {key: [render(one) for one in shown] if render else shown, "meta": {"pagination": pagination}}


def field(things, name):
    """The function that takes this field of one of the things."""
    return itemgetter(name) if things and isinstance(things[0], dict) else attrgetter(name)


def wanted(call, things):
    """By name, label_selector, and those of the other parameters that are fields."""
    things = list(things)
    if (text := call.one("label_selector")) is not None:
        try:
            matches = selector.parse(text)
        except ValueError as problem:
            raise refused("label_selector", str(problem)) from None
        labels_of = field(things, "labels")
        things = [one for one in things if matches(labels_of(one))]
    for name in ("name", "status", "type", "architecture"):
        values = call.every(name)
        if values:
            value_of = field(things, name)
            things = [one for one in things if value_of(one) in values]
    return things


def in_order(call, things):
    """Sorts by the sort parameters, the first one first, otherwise by id. Things that have not finished yet come first."""
    things.sort(key=field(things, "id"))
    for order in reversed(call.every("sort")):
        name, _, direction = order.partition(":")
        value_of = field(things, name)
        key = (lambda one: value_of(one) or 0) if name == "finished" else value_of
        things.sort(key=key, reverse=direction == "desc")
    return things


def _links(call, pagination):
    others = [pair for pair in call.request.pairs if pair[0] != "page"]
    links = []
    for relation, number in (("prev", pagination["previous_page"]), ("next", pagination["next_page"]),
                             ("last", pagination["last_page"])):
        if number:
            query = urlencode([("page", number), *others])
            links.append(f'<{call.request.full_path}?{query}>; rel={relation}')
    return ", ".join(links)
