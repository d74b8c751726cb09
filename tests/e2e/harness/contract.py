"""openapi.yaml as a judge: of every answer its status, its type and its JSON. Knows of JSON Schema what that file uses."""
import os
import re
from urllib.parse import unquote

import yaml

FILE = os.path.join(os.path.dirname(__file__), "../../../src/http/openapi.yaml")
KNOWN = {"$ref", "type", "nullable", "enum", "required", "properties", "additionalProperties", "items", "minItems",
         "maxItems", "minimum", "maximum", "minLength", "maxLength", "pattern", "oneOf", "description", "example",
         "default"}


def is_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, {"string": str, "boolean": bool, "array": list, "object": dict}[name])


class Contract:
    def __init__(self):
        with open(FILE, encoding="utf-8") as text:
            self.whole = yaml.safe_load(text)
        self.paths = self.whole["paths"]
        self.seen = set()  # (method, path, status)

    def resolve(self, part):
        while "$ref" in part:
            found = self.whole
            for name in part["$ref"].lstrip("#/").split("/"):
                found = found[name]
            part = found
        return part

    def find(self, path):
        """The path of the file that this one is an instance of, or None."""
        pieces = path.partition("?")[0].split("/")
        for wanted in self.paths:
            parts = wanted.split("/")
            if len(parts) == len(pieces) and all(
                    (part.startswith("{") and unquote(piece)) or part == piece for part, piece in zip(parts, pieces)):
                return wanted
        return None

    def saw(self, method, path, status):
        self.seen.add((method, path, status))

    def check(self, method, path, answer):
        known = self.find(path)
        operation = self.paths.get(known, {}).get(method.lower())
        if operation is None:
            assert answer.status in ((404,) if known is None else (405,)) or answer.status == 400, (method, path, answer.status)
            self.judge(answer.json(), {"$ref": "#/components/schemas/Error"}, path)
            return
        said = operation["responses"].get(str(answer.status))
        assert said is not None, f"{method} {path}: {answer.status} is not in the contract: {answer.text[:300]}"
        self.saw(method, known, answer.status)
        content = self.resolve(said).get("content", {})
        if content and answer.status != 304:
            self.judge_content(content, answer, f"{method} {path} {answer.status}")

    def judge_content(self, content, answer, where):
        kind = answer.headers["Content-Type"]
        assert kind in content or "*/*" in content, f"{where}: {kind}"
        if kind == "application/json":
            self.judge(answer.json(), content[kind].get("schema", {}), where)

    def judge(self, value, schema, where):
        schema = self.resolve(schema)
        assert set(schema) <= KNOWN, f"{where}: the judge does not know {set(schema) - KNOWN}"
        if value is None and schema.get("nullable"):
            return
        if "oneOf" in schema:
            self.judge_one_of(value, schema["oneOf"], where)
        if "type" in schema:
            assert is_type(value, schema["type"]), f"{where}: {value!r} is no {schema['type']}"
        assert "enum" not in schema or value in schema["enum"], f"{where}: {value!r} is none of {schema['enum']}"
        self.judge_bounds(value, schema, where)
        if isinstance(value, dict):
            self.judge_object(value, schema, where)
        for at, item in enumerate(value if isinstance(value, list) else ()):
            self.judge(item, schema.get("items", {}), f"{where}[{at}]")

    def judge_one_of(self, value, schemas, where):
        faults = []
        for schema in schemas:
            try:
                self.judge(value, schema, where)
            except AssertionError as fault:
                faults.append(str(fault))
        assert len(faults) == len(schemas) - 1, f"{where}: {len(schemas) - len(faults)} of oneOf fit: {faults}"

    def judge_bounds(self, value, schema, where):
        size = len(value) if isinstance(value, (str, list)) else 0
        for bound, holds in (("minimum", lambda b: value >= b), ("maximum", lambda b: value <= b),
                             ("minLength", lambda b: size >= b), ("maxLength", lambda b: size <= b),
                             ("minItems", lambda b: size >= b), ("maxItems", lambda b: size <= b),
                             ("pattern", lambda b: re.search(b, value))):
            assert bound not in schema or holds(schema[bound]), f"{where}: {value!r} against {bound} {schema[bound]}"

    def judge_object(self, value, schema, where):
        known = schema.get("properties", {})
        missing = set(schema.get("required", ())) - set(value)
        assert not missing, f"{where}: without {missing}"
        for name, item in value.items():
            assert name in known or schema.get("additionalProperties") is not False, f"{where}: {name} is not in the contract"
            self.judge(item, known.get(name, {}), f"{where}.{name}")
