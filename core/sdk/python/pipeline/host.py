"""The host's functions, and errors on their way over the ABI."""

import contextlib
import ctypes
import errno
import operator
import os
import sys
import traceback

import torch

from . import abi
from .tensors import View

PACKAGE = os.path.dirname(os.path.abspath(__file__))


class ConfigError(Exception):
    """The user's configuration or input is wrong: the run ends with exit code 2 and this message."""


class HostError(Exception):
    """An error of the host's, passed on as it is."""

    def __init__(self, pointer):
        super().__init__(pointer)
        self.pointer = pointer


class TaskError(Exception):
    """The user's class breaks a rule of this package: the message says which, so no traceback is shown."""


class WorkerError(Exception):
    """An error of another process, with its code and message."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Host:
    """The functions of one process; [any-thread] but for `metric`."""

    def __init__(self, address, step):
        """step: () -> how many optimizer steps have made the weights that are evaluated."""
        self.functions, self.step = abi.Host.received(address), step

    def error(self, code, message):
        return self.functions.error_new(code, abi.string(message))

    def check(self, error):
        if error:
            raise HostError(error)

    def guarded(self, task_file, where, work):
        """What a slot returns: NULL, or the error that work() ends with."""
        try:
            with this_process_alone(task_file):
                work()
        except BaseException as error:
            return self.from_exception(error, task_file, where)
        return None

    def from_exception(self, error, task_file, where="", code=abi.ERROR_FAILED):
        """What a slot returns for an exception; never NULL. where: of one that this package raises over the user's values."""
        if isinstance(error, HostError):
            return error.pointer
        return self.error(code_of(error) or code, message_of(error, task_file, where))


def code_of(error):
    if isinstance(error, WorkerError):
        return error.code
    if isinstance(error, ConfigError):
        return abi.ERROR_CONFIG
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return abi.ERROR_OUT_OF_MEMORY
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return abi.ERROR_NO_SPACE
    return None


def message_of(error, task_file, where=""):
    if isinstance(error, TaskError):
        return f"{task_file}: {error}" if task_file else str(error)
    return str(error) if isinstance(error, (ConfigError, WorkerError)) else describe(error, task_file, where)


@contextlib.contextmanager
def this_process_alone(task_file):
    """Around code of the user's: a process that it forks does not leave this."""
    process = os.getpid()
    try:
        yield
    except BaseException as error:
        if os.getpid() != process:
            _end_child(error, task_file)
        raise
    if os.getpid() != process:
        _end_child(None, task_file)


def _end_child(error, task_file):
    """Ends a process that a method has forked, and which leaves it by this exception or, None, by returning: the run is its parent's. The
    exit code is that of sys.exit(), or 1."""
    code = error.code if isinstance(error, SystemExit) else 1
    if error is None:
        error = TaskError("a process that a method has forked returned from it: the run is its parent's, so it ends here; end it by os._exit()")
    try:
        if not isinstance(error, SystemExit):
            print("error:", message_of(error, task_file), file=sys.stderr)
        elif not isinstance(code, (int, type(None))):
            print(code, file=sys.stderr)
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    finally:  # they may be closed
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


def describe(error, task_file, where=""):
    """The exception as text: where in the user's file first, then the traceback, without this package's frames if it has
    others."""
    told = traceback.TracebackException.from_exception(error)
    part = told
    while part is not None:
        frames = [frame for frame in part.stack if not frame.filename.startswith((PACKAGE + os.sep, "<frozen"))]
        part.stack = traceback.StackSummary.from_list(frames or part.stack)
        part = part.__cause__ or part.__context__
    what = "".join(told.format_exception_only()).strip()
    own = [frame for frame in told.stack if frame.filename == task_file]
    if isinstance(error, SyntaxError) and error.filename:  # the traceback is the parser's
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}\n{error.text or ''}".rstrip()
    last = (own or list(told.stack) or [None])[-1]
    if last is None or last.filename.startswith(PACKAGE + os.sep):
        what = ": ".join(part for part in (task_file, where, what) if part)
    else:
        what = f"{last.filename}:{last.lineno}: {what}"
    return what if not told.stack else what + "\n" + "".join(told.format()).rstrip()


class Context:
    """What the host tells one task object: its run, seeds, the log."""

    def __init__(self, host, pointer):
        self._host = host.functions
        self._pointer = pointer
        self.info = abi.RunInfo.received(self._host.run_info(pointer))

    def log(self, level, line):
        for part in str(line).splitlines():
            self._host.log(self._pointer, abi.LOG_LEVELS[level], abi.string(part))

    def metric(self, name, total, weight):
        try:
            name, weight = abi.string(name), float(weight)
            total = total.reshape(()) if isinstance(total, torch.Tensor) else float(total)
        except (TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise TypeError(f"metric({name!r}, {total!r}, {weight!r}): must be given a name, a number or tensor of one, and a "
                            "number") from error
        if isinstance(total, torch.Tensor):
            view = View(total.float())
            self._host.metric_tensor(self._pointer, name, ctypes.byref(view.raw), weight)
        else:
            self._host.metric(self._pointer, name, total, weight)

    def seed(self, name, *numbers):
        if not isinstance(name, str) or len(numbers) > 3:
            raise TypeError(f"seed or generator of {(name, *numbers)!r}: must be given a name and at most three whole numbers")
        numbers = [operator.index(number) for number in numbers]
        return self._host.seed(self._pointer, abi.string(name), *(numbers + [0, 0, 0])[:3])
