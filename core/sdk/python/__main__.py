"""`python3 lib/pipeline/python --task=FILE --class=NAME VERB ...`: how `pipeline` goes on as Python."""

import sys

try:
    from pipeline.start import WrongTorch, heed_interrupts, torch_folder
    heed_interrupts()
    torch_folder()
except ModuleNotFoundError:  # of the wheel, which has the package in its own environment
    print(f"error: {sys.executable} has no pipeline: install the wheel in that environment, too", file=sys.stderr)
    sys.exit(2)
except WrongTorch as error:
    print(f"error: {error}; or name the Python that has it in task.python", file=sys.stderr)
    sys.exit(2)
from pipeline.command import program

program()
