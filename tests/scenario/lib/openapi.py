"""Hetzner's own description of its API, where a copy is at hand: CCMD_HCLOUD_OPENAPI, or shared/spec beside the tree.

It is OpenAPI 3.0, whose schemas are almost JSON Schema: nullable is a word of its own, and $ref stands alone.
"""
import json
import os
from pathlib import Path

import jsonschema

from sim import kinds

from .process import REPOSITORY

NAME = "shared/spec/hcloud-openapi.json"


def document_path():
    """The file, or None. Worktrees lie deeper than the repository, so every folder above is looked into."""
    named = os.environ.get("CCMD_HCLOUD_OPENAPI")
    if named:
        return Path(named)
    return next((folder / NAME for folder in REPOSITORY.parents if (folder / NAME).exists()), None)


class Document:
    def __init__(self, path):
        self.content = json.loads(Path(path).read_text())
        self._components = _as_json_schema(self.content["components"])

    def operation(self, method, path):
        """The description of that request, or None."""
        return self.content["paths"].get(path, {}).get(method.lower())

    def resolve(self, schema):
        """Follows references, and looks through an allOf of one."""
        while "$ref" in schema or "allOf" in schema:
            if "allOf" in schema:
                (schema,) = schema["allOf"]
                continue
            name = schema["$ref"].rpartition("/")[2]
            schema = self.content["components"]["schemas"][name]
        return schema

    def request_schema(self, method, path):
        content = self.operation(method, path).get("requestBody", {}).get("content", {})
        return content["application/json"]["schema"] if content else None

    def problems(self, method, path, status, body):
        """The differences between this answer and the document."""
        responses = self.operation(method, path)["responses"]
        described = responses.get(str(status)) or responses.get(f"{status // 100}xx")
        if described is None:
            return [f"status {status} is not described"]
        content = described.get("content")
        if content is None:
            return [] if body is None else ["a body is not described"]
        schema = {**_as_json_schema(content["application/json"]["schema"]), "components": self._components}
        found = jsonschema.Draft202012Validator(schema).iter_errors(body)
        return [f"{one.json_path}: {one.message[:200]}" for error in found for one in _leaves(error)]


def _as_json_schema(schema):
    """As closed schemas: a member that is not described is a difference."""
    if isinstance(schema, list):
        return [_as_json_schema(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema and isinstance(schema["$ref"], str):
        return {"$ref": schema["$ref"]}
    result = {key: _as_json_schema(value) for key, value in schema.items() if key not in ("example", "nullable", "format")}
    if "properties" in result and result.get("type") == "object":
        result.setdefault("additionalProperties", False)
    if schema.get("nullable") is True:
        return {"anyOf": [result, {"type": "null"}]}
    return result


def _leaves(error):
    """For anyOf, what is wrong with the alternative that is not null."""
    inner = [one for one in error.context if one.validator_value != "null"]
    return [leaf for one in inner for leaf in _leaves(one)] if inner else [error]


# --- our tables and the document's -----------------------------------------------------------------------------------------

JSON_TYPES = {kinds.Flag: "boolean", kinds.Number: "integer", kinds.Text: "string", kinds.OneOf: "string",
              kinds.IdOrName: "an ID or a name", kinds.Labels: "object", kinds.ListOf: "array", kinds.Fields: "object"}


def differences(document, kind, schema, where=""):
    """How the kind of a value differs from the document's schema, as lines "where: what"."""
    schema = document.resolve(schema)
    if JSON_TYPES[type(kind)] != schema.get("type"):
        yield f"{where}: {JSON_TYPES[type(kind)]} here, {schema.get('type')} there"
    elif isinstance(kind, kinds.ListOf):
        yield from differences(document, kind.item, schema["items"], f"{where}[]")
    elif isinstance(kind, kinds.Fields):
        yield from _member_differences(document, kind, schema, f"{where}." if where else "")
    elif isinstance(kind, kinds.OneOf) and "enum" in schema and set(kind.values) != set(schema["enum"]):
        yield f"{where}: {sorted(kind.values)} here, {sorted(schema['enum'])} there"


def _member_differences(document, kind, schema, prefix):
    theirs = schema.get("properties", {})
    required = set(schema.get("required", ()))
    for name in sorted(kind.members.keys() - theirs.keys()):
        yield f"{prefix}{name}: only here"
    for name in sorted(theirs.keys() - kind.members.keys()):
        yield f"{prefix}{name}: only there"
    for name in sorted(kind.required - required):
        yield f"{prefix}{name}: required here"
    for name in sorted((required - kind.required) & kind.members.keys()):
        yield f"{prefix}{name}: required there"
    for name in sorted(kind.members.keys() & theirs.keys()):
        yield from differences(document, kind.members[name], theirs[name], prefix + name)


def query_differences(document, row, operation):
    """Likewise for query parameters. One that may be given several times is an array there."""
    theirs = {one["name"]: one["schema"] for one in operation.get("parameters", ()) if one["in"] == "query"}
    for name in sorted(row.query.keys() - theirs.keys()):
        yield f"?{name}: only here"
    for name in sorted(theirs.keys() - row.query.keys()):
        yield f"?{name}: only there"
    for name in sorted(row.query.keys() & theirs.keys()):
        schema = document.resolve(theirs[name])
        schema = document.resolve(schema["items"]) if schema.get("type") == "array" else schema
        yield from differences(document, row.query[name], schema, f"?{name}")
