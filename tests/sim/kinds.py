"""What a value in a request may be: the words in which tables.py is written.

check(value, where, problems) adds (name of the field, message) for each thing that is wrong.
"""
import re

from . import selector

MAX_ID = (1 << 53) - 1


class Kind:
    """nullable: null is allowed. types: what the JSON value must be, in Python and in words."""

    types = ()
    words = ""

    def __init__(self, nullable=False):
        self.nullable = nullable

    def check(self, value, where, problems):
        if value is None and self.nullable:
            return
        if not self.is_type(value):
            problems.append((where, f"must be {self.words}"))
            return
        self.check_value(value, where, problems)

    def is_type(self, value):
        return isinstance(value, self.types) and (bool in self.types or not isinstance(value, bool))

    def check_value(self, value, where, problems):
        pass


class Flag(Kind):
    types = (bool,)
    words = "a boolean"


class Number(Kind):
    types = (int,)
    words = "an integer"

    def __init__(self, low=None, high=None, nullable=False):
        super().__init__(nullable)
        self.low = low
        self.high = high

    def check_value(self, value, where, problems):
        if self.low is not None and value < self.low:
            problems.append((where, f"must be at least {self.low}"))
        if self.high is not None and value > self.high:
            problems.append((where, f"must be at most {self.high}"))


class Text(Kind):
    types = (str,)
    words = "a string"

    def __init__(self, low=0, high=None, pattern=None, nullable=False):
        super().__init__(nullable)
        self.low = low
        self.high = high
        self.pattern = re.compile(pattern) if pattern else None

    def check_value(self, value, where, problems):
        if len(value) < self.low:
            problems.append((where, "is too short"))
        elif self.high is not None and len(value) > self.high:
            problems.append((where, "is too long"))
        elif self.pattern and not self.pattern.fullmatch(value):
            problems.append((where, "has an invalid format"))


class OneOf(Text):
    def __init__(self, *values):
        super().__init__()
        self.values = values

    def check_value(self, value, where, problems):
        if value not in self.values:
            problems.append((where, f"must be one of {', '.join(self.values)}"))


class IdOrName(Kind):
    """The API takes a number, a number in a string, or a name."""

    types = (int, str)
    words = "an ID or a name"


class Labels(Kind):
    types = (dict,)
    words = "an object"

    def check_value(self, value, where, problems):
        for key, text in value.items():
            problem = selector.label_problem(key, text) if isinstance(text, str) else "label values must be strings"
            if problem:
                problems.append((where, problem))


class ListOf(Kind):
    types = (list,)
    words = "an array"

    def __init__(self, item, nullable=False):
        super().__init__(nullable)
        self.item = item

    def check_value(self, value, where, problems):
        for number, one in enumerate(value):
            self.item.check(one, f"{where}.{number}", problems)


class Fields(Kind):
    """An object of these members and no others. Names that end with "!" must be there."""

    types = (dict,)
    words = "an object"

    def __init__(self, members=None, nullable=False, **more):
        super().__init__(nullable)
        named = {**(members or {}), **more}
        self.members = {name.rstrip("!"): kind for name, kind in named.items()}
        self.required = {name.rstrip("!") for name in named if name.endswith("!")}

    def check_value(self, value, where, problems):
        prefix = f"{where}." if where else ""
        for name in sorted(self.required - value.keys()):
            problems.append((prefix + name, "is required"))
        for name, one in value.items():
            if name in self.members:
                self.members[name].check(one, prefix + name, problems)
            else:
                problems.append((prefix + name, "unknown field"))


def ident(nullable=False):
    return Number(1, MAX_ID, nullable)


def port():
    return Number(1, 65535)
