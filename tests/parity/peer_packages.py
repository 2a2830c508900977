"""The Python packages that ours is compared with, and the interpreter that has them."""
import contextlib
import os
import sys


def skip(reason):
    """Ends this test as skipped, by ctest's exit code for that."""
    print(f"skipped: {reason}")
    sys.exit(77)


def use_their_python():
    """Starts this program again in the interpreter that PIPELINE_PYTHON names, if it names one."""
    if wanted := os.environ.pop("PIPELINE_PYTHON", None):
        os.execv(wanted, [wanted] + sys.argv)


@contextlib.contextmanager
def needed(requirements="requirements.txt"):
    """Around imports: the test is skipped if the packages of `requirements`, a file beside this one, are not there."""
    try:
        yield
    except ImportError as error:
        skip(f"{error}: set PIPELINE_PYTHON to a Python with tests/parity/{requirements}")
