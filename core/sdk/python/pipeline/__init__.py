"""Tasks in Python for `pipeline`: any torch.nn.Module under any strategy, with exact resume.

Derive from Task in a file of your own and name it in a configuration:

    [task]
    plugin = "python"
    file = "my_task.py"

`pipeline run train.toml` then runs it in your Python.
"""

import importlib

# torch is imported with the first of these, after start.torch_folder() has seen that it is the right one.
_HOME = {"ConfigError": "host", "Loss": "task", "Metric": "task", "Parameter": "parameters", "Result": "result", "Task": "task", "main": "command",
         "option": "options", "run": "command"}
__all__ = list(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .start import torch_folder
    torch_folder()
    value = getattr(importlib.import_module("." + _HOME[name], __name__), name)
    globals()[name] = value
    return value
