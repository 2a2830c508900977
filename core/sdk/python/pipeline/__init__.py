"""Tasks in Python for `pipeline`: any torch.nn.Module under any strategy, with exact resume.

Derive from Task in a file of your own and name it in a configuration:

    [task]
    plugin = "python"
    file = "my_task.py"

`pipeline run train.toml` then runs it in your Python.
"""

from .command import main, run
from .host import ConfigError
from .options import option
from .parameters import Parameter
from .task import Metric, Task

__all__ = ["ConfigError", "Metric", "Parameter", "Task", "main", "option", "run"]
