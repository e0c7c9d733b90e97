"""Label selectors of the Hetzner Cloud API: k, !k, k=v, k==v, k!=v, k in (a,b), k notin (a,b), joined by commas."""
import re

KEY = r"(?:[A-Za-z0-9.-]+/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
VALUE = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?"
TERM = re.compile(
    rf"\s*(?:(?P<no>!)\s*(?P<absent>{KEY})"
    rf"|(?P<of>{KEY})\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\)"
    rf"|(?P<key>{KEY})\s*(?P<op>==|!=|=)\s*(?P<value>{VALUE})"
    rf"|(?P<present>{KEY}))\s*(?:,|$)"
)
LABEL_KEY = re.compile(KEY)
LABEL_VALUE = re.compile(VALUE)
MAX_PREFIX = 253


def parse(text):
    """A function labels -> bool. ValueError if it cannot be read."""
    terms = []
    position = 0
    while position < len(text):
        match = TERM.match(text, position)
        if not match or match.end() == position:
            raise ValueError(f"label selector is invalid near {text[position:][:40]!r}")
        terms.append(_term(match))
        position = match.end()
    if text.rstrip().endswith(","):
        raise ValueError("label selector ends with a comma")
    return lambda labels: all(term(labels) for term in terms)


def _term(match):
    if match["no"]:
        return lambda labels, key=match["absent"]: key not in labels
    if match["set"]:
        return _set_term(match["of"], match["set"], [one.strip() for one in match["values"].split(",")])
    if match["op"]:
        key, value = match["key"], match["value"]
        if match["op"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    return lambda labels, key=match["present"]: key in labels


def _set_term(key, operator, values):
    if not all(LABEL_VALUE.fullmatch(one) for one in values):
        raise ValueError(f"label selector has an invalid value in the set of {key!r}")
    if operator == "in":
        return lambda labels: labels.get(key) in values
    return lambda labels: labels.get(key) not in values


def label_problem(key, value):
    """Why this is no label, or None."""
    prefix = key.rpartition("/")[0]
    if not LABEL_KEY.fullmatch(key) or len(prefix) > MAX_PREFIX:
        return f"label key {key!r} is invalid"
    if prefix == "hetzner.cloud" or prefix.endswith(".hetzner.cloud"):
        return f"label key {key!r} has a reserved prefix"
    if not LABEL_VALUE.fullmatch(value):
        return f"label value {value!r} is invalid"
    return None
