"""Processes that make a run's batches, `loader.processes`: for datasets that are slow in Python.

Each has an object of the user's class without a model. What depends on the run, its seeds and its log, it asks of the run's process. A
batch comes as a pickle, its tensors in memory that both have mapped (memfd_create): however either ends, nothing is left behind.
"""

import io
import mmap
import os
import pickle
import queue
import signal
import subprocess
from multiprocessing import Pipe, reduction
from multiprocessing.connection import Connection

import torch

from .abi import ERROR_FAILED
from .host import TaskError, WorkerError, code_of, message_of, this_process_alone
from .options import Schema

_ALIGNMENT = 64  # bytes, of each tensor


class _Pickler(pickle.Pickler):
    """Leaves out plain tensors: they are in `tensors`, in order."""

    def __init__(self, file):
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.tensors = []

    def persistent_id(self, value):
        if type(value) is not torch.Tensor or value.device.type != "cpu" or value.layout is not torch.strided \
                or value.requires_grad or value.is_quantized:
            return None
        self.tensors.append(value)
        return len(self.tensors) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, tensors):
        super().__init__(file)
        self._tensors = tensors

    def persistent_load(self, number):
        return self._tensors[number]


def _packed(batch):
    """(the pickle, what _tensor() needs for each tensor, a file with their elements)."""
    text = io.BytesIO()
    pickler = _Pickler(text)
    try:
        pickler.dump(batch)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TaskError(f"loader.processes: batch() returned what cannot be handed over to another process: {error}") from error
    flat, places, size = [], [], 0
    for tensor in pickler.tensors:
        # All that the strides span, as it lies: with other strides the model's sums would have other bits.
        span = 1 + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride())) if tensor.numel() else 0
        flat.append(tensor.as_strided((span,), (1,)))
        places.append((size, tensor.dtype, span, tuple(tensor.shape), tensor.stride()))
        size += -(-flat[-1].nbytes // _ALIGNMENT) * _ALIGNMENT
    file = os.memfd_create("batch", os.MFD_CLOEXEC)
    if size:
        os.ftruncate(file, size)
        memory = mmap.mmap(file, size)
        for elements, (offset, dtype, span, *_) in zip(flat, places):
            if span:
                torch.frombuffer(memory, dtype=dtype, count=span, offset=offset).copy_(elements)
    return text.getvalue(), places, file


def _unpacked(text, places, file):
    size = os.fstat(file).st_size
    memory = mmap.mmap(file, size) if size else None  # lives as long as a tensor in it
    return _Unpickler(io.BytesIO(text), [_tensor(memory, *place) for place in places]).load()


def _tensor(memory, offset, dtype, span, shape, strides):
    if not span:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(memory, dtype=dtype, count=span, offset=offset).as_strided(shape, strides)


class Loaders:
    """The processes of one task object; they begin to start at once. [any-thread] but for close()."""

    def __init__(self, count, command, context, options, state):
        """command: what starts one, but for its last word, and in which folder. options: by key. state: of the checkpoint, for set_extra_state()."""
        self._context = context
        self._all = [_Loader(command, options, state) for _ in range(count)]
        self._idle = queue.Queue()
        for loader in self._all:
            self._idle.put(loader)

    def load(self, split, ids, epoch):
        loader = self._idle.get()
        try:
            return loader.load(self._context, split, ids, epoch)
        except WorkerError as error:
            loader.failure = error  # whichever batch comes next to it: this is what ends the run
            raise
        finally:
            self._idle.put(loader)

    def close(self):
        for loader in self._all:
            loader.connection.close()
        for loader in self._all:
            loader.end()


class _Loader:
    def __init__(self, command, *settings):
        self.connection, theirs = Pipe()
        words, folder = command
        with theirs:
            self._process = subprocess.Popen([*words, f"--loader={theirs.fileno()}"], pass_fds=[theirs.fileno()],
                                             stdin=subprocess.DEVNULL, cwd=folder)
        self._settings = settings  # to be sent with the first request
        self.failure = None

    def load(self, context, split, ids, epoch):
        if self.failure:
            raise self.failure
        what = f"samples {', '.join(map(str, ids[:8]))}{', ...' if len(ids) > 8 else ''} of split {split}, epoch {epoch}"
        try:
            if self._settings:
                self.connection.send(self._settings)
                self._settings = None
                self._answer(context)
            self.connection.send((split, ids, epoch))
            text, places = self._answer(context)
            file = reduction.recv_handle(self.connection)
        except WorkerError as error:
            raise WorkerError(error.code, f"{error}\nin a process of loader.processes, which makes a batch of {what}") from None
        except (EOFError, OSError) as error:
            raise WorkerError(ERROR_FAILED, f"a process of loader.processes {self.end()} while it made a batch of {what}") from error
        try:
            return _unpacked(text, places, file)
        finally:
            os.close(file)

    def _answer(self, context):
        """What the process sends when it is done; until then it may ask."""
        while True:
            kind, *values = self.connection.recv()
            if kind == "seed":
                self.connection.send(context.seed(*values))
            elif kind == "log":
                context.log(*values)
            elif kind == "failed":
                raise WorkerError(*values)
            else:
                return values

    def end(self):
        """Waits for its end, and says how it ended."""
        try:
            code = self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        if code >= 0:
            return f"ended with exit code {code}"
        hint = ", often by the kernel's out-of-memory killer," if code == -signal.SIGKILL else ""
        return f"was killed by {signal.Signals(-code).name}{hint}"


class _Context:
    """What a task asks the host in the run's own process."""

    def __init__(self, connection):
        self._connection = connection

    def seed(self, *words):
        self._connection.send(("seed", *words))
        return self._connection.recv()

    def log(self, *words):
        self._connection.send(("log", *words))


def serve(number, file, find_class):
    """The life of such a process; `number` is the file descriptor of its connection."""
    for ignored in (signal.SIGINT, signal.SIGTERM):  # meant for the run, which may still want batches
        signal.signal(ignored, signal.SIG_IGN)
    torch.set_num_threads(1)
    connection = Connection(number)
    try:
        with torch.no_grad():
            task = _reported(connection, file, lambda: _opened(find_class(), _Context(connection), *connection.recv()))
            connection.send(("open",))
            while True:
                split, ids, epoch = connection.recv()
                text, places, tensors = _reported(connection, file, lambda: _packed(task.batch(split, ids, epoch)))
                connection.send(("batch", text, places))
                reduction.send_handle(connection, tensors, os.getppid())
                os.close(tensors)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the run is over


def _reported(connection, file, work):
    """work(); its failure is the end of this process, and then of the run."""
    try:
        with this_process_alone(file):
            return work()
    except BaseException as error:
        connection.send(("failed", code_of(error), message_of(error, file)))
        raise SystemExit(0) from None


def _opened(task_class, context, options, state):
    task = task_class()
    task.options, task._context = Schema(task_class.Options).build(options), context
    if state:
        task.set_extra_state(state)
    task.open_data()
    return task
