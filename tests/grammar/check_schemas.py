"""Checks answers drawn under random JSON schemas with PyPI's jsonschema (with patterns and formats). On demand:

    python tests/grammar/check_schemas.py build/release/bin/schema_samples [--count 500] [--seed 1]

Every answer must parse and validate. Prints what does not; exit code 1 if there is any.
"""

import argparse
import json
import random
import subprocess
import sys

import jsonschema

FORMATS = ["date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"]
PATTERNS = ["^[A-Z]{2}-\\d+$", "a+b", "^(?:x|yz)*$", "^\\w{3,5}$", "[^a-z]", "^\\S+@\\S+$", "\"\\\\", "^.{2}$", "é|日", "^$", "^\\+?[1-9]\\d{1,14}$",
            "^[^\\s]{1,4}$", "^#(?:[0-9a-f]{3}){1,2}$", "\\.json$", "^v\\d+(\\.\\d+)*$", "^[\\w.-]+/[\\w.-]+$"]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def number(self, low, high):
        return self.random.choice([self.random.randint(low, high), round(self.random.uniform(low, high), 2)])

    def schema(self, depth=0):
        choose = self.random.choice
        kinds = ["string", "pattern", "format", "integer", "number", "enum", "const", "types", "multiple"]
        if depth < 3:
            kinds += ["object", "object", "array", "tuple", "map", "any", "one", "all", "ref", "both"]
        kind = choose(kinds)
        if kind == "string":
            low = self.random.randint(0, 3)
            return {"type": "string", "minLength": low, "maxLength": low + self.random.randint(0, 5)}
        if kind == "pattern":
            return {"type": "string", "pattern": choose(PATTERNS)}
        if kind == "both":
            return {"type": "string", "pattern": choose(PATTERNS), "maxLength": 12}
        if kind == "format":
            return {"type": "string", "format": choose(FORMATS)}
        if kind == "integer":
            low = self.random.randint(-2000, 2000)
            return {"type": "integer", choose(["minimum", "exclusiveMinimum"]): low, "maximum": low + self.random.randint(1, 3000)}
        if kind == "number":
            bounds = {"minimum": self.number(-100, 5), "exclusiveMaximum": self.number(6, 1000)}
            return {"type": "number", **dict(self.random.sample(list(bounds.items()), self.random.randint(0, 2)))}
        if kind == "multiple":
            return {"type": "integer", "multipleOf": self.random.randint(1, 30)}
        if kind == "enum":
            return {"enum": self.random.sample(["a", "b\"\n", 1, -2.5, None, True, {"k": [1, "x"]}, []], 3)}
        if kind == "const":
            return {"const": choose(["é", 3, None, {"a": 1}])}
        if kind == "types":
            return {"type": self.random.sample(["string", "null", "boolean", "integer", "number", "object", "array"], 2)}
        if kind == "object":
            names = self.random.sample(["a", "b", "name", "é\"", "x y", ""], self.random.randint(1, 4))
            schema = {"type": "object", "properties": {name: self.schema(depth + 1) for name in names}}
            schema["required"] = self.random.sample(names, self.random.randint(0, len(names)))
            if self.random.random() < 0.5:
                schema["additionalProperties"] = choose([False, self.schema(depth + 1)])
            return schema
        if kind == "map":
            return {"type": "object", "additionalProperties": self.schema(depth + 1), "maxProperties": 3}
        if kind == "array":
            low = self.random.randint(0, 2)
            return {"type": "array", "items": self.schema(depth + 1), "minItems": low, "maxItems": low + self.random.randint(0, 2)}
        if kind == "tuple":
            return {"type": "array", "prefixItems": [self.schema(depth + 1), self.schema(depth + 1)], "items": choose([False, self.schema(depth + 1)])}
        if kind == "any":
            return {"anyOf": [self.schema(depth + 1), self.schema(depth + 1)]}
        if kind == "one":
            return {"type": "object", "oneOf": [{"properties": {"k": {"const": k}, "v": self.schema(depth + 1)}, "required": ["k"]} for k in ("a", "b")]}
        if kind == "all":
            return {"allOf": [{"type": "object", "properties": {"a": self.schema(depth + 1)}}, {"required": ["a"], "properties": {"b": {"type": "null"}}}]}
        return {"$ref": choose(["#", "#/$defs/d"])}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    maker = Maker(options.seed)
    schemas = [{**maker.schema(), "$defs": {"d": maker.schema(2)}} for _ in range(options.count)]
    lines = "\n".join(json.dumps(schema) for schema in schemas) + "\n"
    done = subprocess.run([options.program, "8", str(options.seed)], input=lines.encode(), capture_output=True, check=True)
    complaints = answers = refused = 0
    for schema, line in zip(schemas, done.stdout.decode().splitlines(), strict=True):
        result = json.loads(line)
        if isinstance(result, dict):
            refused += "refused" in result
            if "error" in result and not result["error"].startswith("limit"):
                print(json.dumps(schema), "\n ", result["error"])
                complaints += 1
            continue
        check = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
        for text in result:
            answers += 1
            try:
                check.validate(json.loads(text))
            except RecursionError:  # "anyOf" of itself: valid, but not for this validator
                break
            except (ValueError, jsonschema.ValidationError) as error:
                print(json.dumps(schema), "\n ", text, "\n ", str(error).splitlines()[0])
                complaints += 1
    print(f"{len(schemas)} schemas, {refused} refused, {answers} answers, {complaints} complaints")
    sys.exit(1 if complaints or not answers else 0)


if __name__ == "__main__":
    main()
