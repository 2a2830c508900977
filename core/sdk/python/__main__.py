"""`python3 core/sdk/python --task=FILE --class=NAME VERB ...`: how `pipeline` goes on as Python."""

import sys

try:
    from pipeline.command import program
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    print(f"error: {sys.executable} has no torch, which a task in Python needs: activate the environment that has it, or "
          "name its Python in task.python", file=sys.stderr)
    sys.exit(2)
program()
