"""Lists as the API gives them: filtered, sorted, in pages (11.1)."""
from urllib.parse import urlencode

from . import selector
from .project import refused

DEFAULT_PER_PAGE = 25
MAX_PER_PAGE = 50


def page_of(call, key, rows):
    """rows are rendered objects with id and perhaps name, labels, created; the query's filters are applied to them."""
    rows = in_order(call, wanted(call, rows))
    page = int(call.one("page") or 1)
    per_page = min(int(call.one("per_page") or DEFAULT_PER_PAGE), MAX_PER_PAGE)
    last = max(1, -(-len(rows) // per_page))
    shown = rows[(page - 1) * per_page : page * per_page]
    pagination = {
        "page": page, "per_page": per_page, "previous_page": page - 1 if page > 1 else None,
        "next_page": page + 1 if page < last else None, "last_page": last, "total_entries": len(rows),
    }
    call.headers["Link"] = _links(call, pagination)
    return {key: shown, "meta": {"pagination": pagination}}


def wanted(call, rows):
    """By name, label_selector, and those of the other parameters that are members of a row."""
    if (text := call.one("label_selector")) is not None:
        try:
            matches = selector.parse(text)
        except ValueError as problem:
            raise refused("label_selector", str(problem)) from None
        rows = [row for row in rows if matches(row["labels"])]
    for name in ("name", "status", "type", "architecture"):
        values = call.every(name)
        if values:
            rows = [row for row in rows if row.get(name) in values]
    return list(rows)


def in_order(call, rows):
    """By the sort parameters, the first counting most; else by id."""
    rows.sort(key=lambda row: row["id"])
    for order in reversed(call.every("sort")):
        field, _, direction = order.partition(":")
        rows.sort(key=lambda row: row[field] if row[field] is not None else "", reverse=direction == "desc")
    return rows


def _links(call, pagination):
    others = [pair for pair in call.request.pairs if pair[0] != "page"]
    links = []
    for relation, number in (("prev", pagination["previous_page"]), ("next", pagination["next_page"]),
                             ("last", pagination["last_page"])):
        if number:
            query = urlencode([("page", number), *others])
            links.append(f'<{call.request.full_path}?{query}>; rel={relation}')
    return ", ".join(links)
