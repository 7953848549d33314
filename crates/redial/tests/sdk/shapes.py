"""Prints what each call of the Python SDK of Svix can send, 1.x or 2.x, as one JSON document.

PYTHONPATH says which version. For each call: method, path, the parameters of its query, and bodies: one with
what it cannot do without, and one more for each other field, with a value of the field's type.
"""

import ast
import datetime
import enum
import inspect
import json
import pkgutil
import typing

import pydantic
import svix.api
import svix.models


def sample(kind):
    """Returns a value of a type, as JSON has it."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Union:
        return sample(next(it for it in inner if it is not type(None)))
    if origin in (list, set):
        return [sample(inner[0])]
    if origin is dict:
        return {}
    if not inspect.isclass(kind):
        return "x"
    if issubclass(kind, pydantic.BaseModel):
        return bodies(kind)[0]
    if issubclass(kind, enum.Enum):
        return next(iter(kind)).value
    values = {bool: False, int: 1, float: 1.5, datetime.datetime: "2026-01-02T03:04:05Z"}
    return values.get(kind, "x")


def bodies(model):
    """Returns the smallest body of a model, and that with each other field."""
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    least = {name: sample(it.annotation) for name, it in fields.items() if it.is_required()}
    others = [
        {**least, name: sample(it.annotation)}
        for name, it in fields.items() if not it.is_required()
    ]
    return [least, *others]


def strings(node):
    return [key.value for it in ast.walk(node) if isinstance(it, ast.Dict) for key in it.keys]


def calls(module):
    tree = ast.parse(inspect.getsource(module))
    classes = [it for it in tree.body if isinstance(it, ast.ClassDef)]
    queries = {
        it.name: strings(method)
        for it in classes for method in it.body if getattr(method, "name", "") == "_query_params"
    }
    for method in [it for one in classes for it in one.body if isinstance(it, ast.FunctionDef)]:
        for call in [it for it in ast.walk(method) if isinstance(it, ast.Call)]:
            if getattr(call.func, "attr", "") != "_request_sync":
                continue
            given = {it.arg: it.value for it in call.keywords}
            kinds = [ast.unparse(it.annotation) for it in method.args.args if it.annotation]
            models = [getattr(svix.models, kind.split(".")[-1], None) for kind in kinds]
            models = [it for it in models if inspect.isclass(it) and hasattr(it, "model_fields")]
            yield {
                "method": given["method"].value.upper(),
                "path": given["path"].value,
                "query": [name for kind in kinds for name in queries.get(kind.split(".")[-1], [])],
                "bodies": bodies(models[0]) if "json_body" in given else [],
            }


modules = [svix.api.__name__ + "." + it.name for it in pkgutil.iter_modules(svix.api.__path__)]
modules = [__import__(name, fromlist=["x"]) for name in modules if "errors" not in name]
print(json.dumps([call for module in modules for call in calls(module)]))
