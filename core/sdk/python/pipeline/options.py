"""A task's options: a dataclass of the user's, which becomes the schema of its [task] table."""

import ctypes
import dataclasses
import json
import pathlib
import typing

from . import abi
from .host import ConfigError, TaskError

_SCALARS = {bool: abi.OPTION_BOOL, int: abi.OPTION_INT, float: abi.OPTION_FLOAT, str: abi.OPTION_STRING,
            pathlib.Path: abi.OPTION_PATH}
_LISTS = {int: abi.OPTION_INT_LIST, float: abi.OPTION_FLOAT_LIST, str: abi.OPTION_STRING_LIST,
          pathlib.Path: abi.OPTION_PATH_LIST}


def option(default=dataclasses.MISSING, *, help="", unit="", minimum=None, maximum=None, above=None, below=None,
           choices=(), may_change=False):
    """A field of an Options class with more than a default.

    Without `default` the user must set it. minimum, maximum: allowed; above, below: not allowed themselves.
    choices: of a string. may_change: it may differ when a run is continued, since it cannot change the result.
    """
    facts = dict(help=help, unit=unit, minimum=minimum, maximum=maximum, above=above, below=below,
                 choices=tuple(choices), may_change=may_change)
    if isinstance(default, list):
        return dataclasses.field(default_factory=lambda: list(default), metadata=facts)
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=facts)
    return dataclasses.field(default=default, metadata=facts)


# What every task in Python has: how `pipeline` finds it.
_OWN = {
    "file": dict(type=abi.OPTION_PATH, default='""', flags=abi.OPTION_MAY_CHANGE,
                 help="the Python file that has the task's class"),
    "class": dict(type=abi.OPTION_STRING, default='""', flags=0,
                  help="the class; needed where the file has several"),
    "python": dict(type=abi.OPTION_STRING, default='""', flags=abi.OPTION_MAY_CHANGE,
                   help="the Python to run it with, a path or a name in PATH; default: of VIRTUAL_ENV, or python3"),
}


class Schema:
    """The options of one class as ABI structs, and their values as an instance of the class."""

    def __init__(self, options_class):
        self._class = options_class
        self._keep = []  # what the structs point to
        self._strings = abi.Strings()
        self._fields = list(_fields(options_class, "")) if options_class else []
        for key, _, _ in self._fields:
            if key in _OWN:
                raise TaskError(f"{options_class.__qualname__}.{key}: every task in Python has this key: give it another name")
        structs = [self._own(key, **facts) for key, facts in _OWN.items()]
        structs += [self._struct(key, kind, field) for key, kind, field in self._fields]
        self.structs = (abi.Option * len(structs))(*structs)

    def read(self, host, config):
        """The user's options by key, checked by the host."""
        return {key: _read(host, config, key, kind) for key, kind, _ in self._fields}

    def build(self, values):
        """Options by key as an instance of the class."""
        return _build(self._class, "", values) if self._class else None

    def _own(self, key, type, default, flags, help):
        return abi.Option.new(type=type, flags=flags, key=self._strings(key),
                              default_value=self._strings(default), help=self._strings(help))

    def _struct(self, key, kind, field):
        facts = field.metadata
        struct = abi.Option.new(type=kind, key=self._strings(key), unit=self._strings(facts.get("unit", "")),
                                help=self._strings(facts.get("help") or f"the field {key} of {self._class.__qualname__}"))
        default = _default(field)
        if default is dataclasses.MISSING:
            struct.flags |= abi.OPTION_REQUIRED
        else:
            struct.default_value = self._strings(_toml(default, kind))
        bounds = ((facts.get("minimum"), facts.get("above"), "minimum", abi.OPTION_HAS_MINIMUM, abi.OPTION_ABOVE_MINIMUM),
                  (facts.get("maximum"), facts.get("below"), "maximum", abi.OPTION_HAS_MAXIMUM, abi.OPTION_BELOW_MAXIMUM))
        for allowed, excluded, name, has, strict in bounds:
            if allowed is not None or excluded is not None:
                struct.flags |= has | (strict if allowed is None else 0)
                setattr(struct, name, excluded if allowed is None else allowed)
        if facts.get("may_change"):
            struct.flags |= abi.OPTION_MAY_CHANGE
        if facts.get("choices"):
            array = self._strings.array(facts["choices"])
            self._keep.append(array)
            struct.choices, struct.choice_count = array, len(array)
        return struct


def _fields(options_class, prefix):
    """(key, ABI type, field) of each option; a field that is a dataclass is a table."""
    if not dataclasses.is_dataclass(options_class):
        raise TaskError(f"{options_class.__qualname__} must be a dataclass: write @dataclass above it")
    types = typing.get_type_hints(options_class)
    for field in dataclasses.fields(options_class):
        key, annotation = prefix + field.name, types[field.name]
        if dataclasses.is_dataclass(annotation):
            yield from _fields(annotation, key + ".")
            continue
        kind = _SCALARS.get(annotation)
        if typing.get_origin(annotation) is list:
            kind = _LISTS.get(typing.get_args(annotation)[0])
        if kind is None:
            raise TaskError(f"{options_class.__qualname__}.{field.name}: {annotation!r} is no type of an option: bool, "
                            "int, float, str, pathlib.Path, a list of one of the last four, or a dataclass")
        yield key, kind, field


def _default(field):
    if field.default is not dataclasses.MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else dataclasses.MISSING


def _toml(value, kind):
    if kind == abi.OPTION_BOOL:
        return "true" if value else "false"
    if kind in (abi.OPTION_STRING, abi.OPTION_PATH):
        return json.dumps(str(value))  # a JSON string is one of TOML
    if kind == abi.OPTION_FLOAT:
        return repr(float(value))
    if isinstance(value, (list, tuple)):
        item = {abi.OPTION_INT_LIST: abi.OPTION_INT, abi.OPTION_FLOAT_LIST: abi.OPTION_FLOAT}.get(kind, abi.OPTION_STRING)
        return "[" + ", ".join(_toml(each, item) for each in value) + "]"
    return repr(value)


def _read(host, config, key, kind):
    name, functions = abi.string(key), host.functions

    def scalar(function, type):
        out = type()
        host.check(function(config, name, ctypes.byref(out)))
        return out

    def array(function, type):
        out, count = ctypes.POINTER(type)(), ctypes.c_uint64()
        host.check(function(config, name, ctypes.byref(out), ctypes.byref(count)))
        return out[:count.value] if count.value else []

    if kind == abi.OPTION_BOOL:
        return bool(scalar(functions.config_bool, ctypes.c_uint32).value)
    if kind == abi.OPTION_INT:
        return scalar(functions.config_int, ctypes.c_int64).value
    if kind == abi.OPTION_FLOAT:
        return scalar(functions.config_float, ctypes.c_double).value
    if kind == abi.OPTION_INT_LIST:
        return array(functions.config_int_list, ctypes.c_int64)
    if kind == abi.OPTION_FLOAT_LIST:
        return array(functions.config_float_list, ctypes.c_double)
    if kind in (abi.OPTION_STRING_LIST, abi.OPTION_PATH_LIST):
        texts = [each.text() for each in array(functions.config_string_list, abi.Str)]
        return [pathlib.Path(text) for text in texts] if kind == abi.OPTION_PATH_LIST else texts
    text = scalar(functions.config_string, abi.Str).text()
    return pathlib.Path(text) if kind == abi.OPTION_PATH else text


def _build(options_class, prefix, values):
    types = typing.get_type_hints(options_class)
    arguments = {}
    for field in dataclasses.fields(options_class):
        key, annotation = prefix + field.name, types[field.name]
        nested = dataclasses.is_dataclass(annotation)
        arguments[field.name] = _build(annotation, key + ".", values) if nested else values[key]
    try:
        return options_class(**arguments)
    except ValueError as error:  # of a check in __post_init__
        raise ConfigError(f"task: {error}") from error
