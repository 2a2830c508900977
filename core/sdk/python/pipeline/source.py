"""A digest of a task's code, by which a run tells that it goes on with another."""

import hashlib
import os
import sys
import types

from .host import PACKAGE


def digest_of(task_class, file):
    """Of the class's file and of the modules in its folder that it names, directly or through others; "": there is no file."""
    folder = os.path.dirname(os.path.abspath(file)) + os.sep
    found, to_read = {}, [sys.modules.get(task_class.__module__)] if file else []
    while to_read:
        module = to_read.pop()
        path = os.path.abspath(getattr(module, "__file__", None) or "")
        name = path.removeprefix(folder)
        if name == path or name in found or f"{os.sep}site-packages{os.sep}" in path or path.startswith(PACKAGE + os.sep):
            continue
        try:
            with open(path, "rb") as source:
                found[name] = hashlib.blake2b(source.read()).digest()
        except OSError:
            continue
        for value in vars(module).values():
            if isinstance(value, types.ModuleType):
                to_read.append(value)
            elif isinstance(value, (type, types.FunctionType)):
                to_read.append(sys.modules.get(value.__module__))
    if not found:
        return ""
    return hashlib.blake2b(b"".join(os.fsencode(name) + found[name] for name in sorted(found)), digest_size=4).hexdigest()
