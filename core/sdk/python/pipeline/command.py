"""Python as the process of a run: finds the user's class and runs the program, libpipeline.so, with it."""

import atexit
import contextlib
import ctypes
import faulthandler
import functools
import gc
import importlib.util
import inspect
import os
import signal
import sys
import threading

from . import abi
from .host import PACKAGE, ConfigError, Host, this_process_alone
from .runtime import current_folder, kept_settings
from .start import heed_interrupts

_library = None
_running = None  # the command line of the run that is on
_lock = threading.Lock()
_loading = None  # the file whose class is being loaded
_tables = []  # entered plugins stay
_kept = []  # callbacks that the library has


def program():
    """`python3 .../lib/pipeline/python --task=FILE --class=NAME VERB ...`"""
    words = sys.argv[1:]
    if len(words) < 2 or not words[0].startswith("--task=") or not words[1].startswith("--class="):
        raise SystemExit("error: this folder is started by `pipeline`; the package in it is for `import pipeline`")
    file, name = words[0][len("--task="):], words[1][len("--class="):]
    if words[2:] and words[2].startswith("--loader="):
        from .loading import serve
        serve(int(words[2][len("--loader="):]), file, lambda: load_class(file, name))
        _leave(0)
    _leave(_main(words[2:], file, name, lambda: load_class(file, name)))


def main(task):
    """The last line of a file with a task's class: `python my_task.py run train.toml` is then
    `pipeline run train.toml` in this Python."""
    heed_interrupts()
    _leave(_main(sys.argv[1:], _file_of(task), task.__name__, lambda: task))


def _leave(code):
    """Ends this process, whatever threads of the user's are still alive: the run is over."""
    atexit._run_exitfuncs()
    _flush()
    os._exit(code)


def _flush():
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: closed from the start
        stream.flush()


def run(config, task, **values):
    """Trains: what `pipeline run config` does, in this process.

    values: what --set would set, as in run("train.toml", MyTask, train__max_steps=100); the two underscores are the dot.
    Returns a Result: folder, checkpoints, figures. Raises RuntimeError, with the run's error, unless the run ends with exit code 0.
    """
    from .result import result_of
    from .task import Task
    if not (isinstance(task, type) and issubclass(task, Task) and task is not Task):
        raise TypeError(f"task is {task!r}, must be a class that derives from pipeline.Task, not an object of it")
    words = ["run", os.fspath(config)]
    for key, value in values.items():
        if value is None:
            raise TypeError(f"{key} is None: leave it out for the default")
        words += ["--set", f"{key.replace('__', '.')}={_toml(value)}"]
    code = _main(words, _file_of(task), task.__name__, lambda: task, kept_settings)
    if code != 0:
        error = _library.pipeline_error().decode(errors="replace") or "see the messages above"
        raise RuntimeError(f"pipeline {' '.join(words)} ended with exit code {code}: {error}")
    found = _library.pipeline_result().decode(errors="replace")
    if not found:
        raise RuntimeError(f"pipeline {' '.join(words)} is done, but what it left cannot be read: {_library.pipeline_error().decode(errors='replace')}")
    return result_of(found)


def _toml(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def _file_of(task):
    try:
        return os.path.abspath(inspect.getsourcefile(task) or "")
    except (OSError, TypeError):  # in a notebook
        return ""


def load_class(file, name):
    """The Task class of that name in the file, or the only one."""
    global _loading
    from .task import Task
    if not file:
        raise ConfigError("other processes of the run cannot load a class that is only in a notebook: move it to a file, and "
                          "import it from there")
    if not os.path.isfile(file):
        raise ConfigError(f"task.file = {file}: there is no such file")
    module_name = os.path.splitext(os.path.basename(file))[0]
    if module_name in sys.modules or module_name in sys.builtin_module_names:
        raise ConfigError(f"task.file = {file}: Python has a module {module_name} already: give the file another name")
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    spec = importlib.util.spec_from_file_location(module_name, file)
    if spec is None:
        raise ConfigError(f"task.file = {file}: must be a Python file, NAME.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    _loading = file
    spec.loader.exec_module(module)
    _loading = None
    classes = {key: value for key, value in vars(module).items() if isinstance(value, type)
               and issubclass(value, Task) and value.__module__ == module_name}
    if name:
        if name not in classes:
            raise ConfigError(f"{file}: task.class = {name}: the file has no task of this name"
                              + (f", but {', '.join(sorted(classes))}" if classes else ""))
        return classes[name]
    if len(classes) != 1:
        raise ConfigError(f"{file}: " + (f"has several tasks, {', '.join(sorted(classes))}: name one in task.class, or as "
                                         f"{os.path.basename(file)}:{min(classes)}"
                                         if classes else "has no class that derives from pipeline.Task"))
    return next(iter(classes.values()))


def _prefix():
    """The folder of bin/ and lib/: this package in a wheel, or four folders up from lib/pipeline/python/pipeline."""
    for folder in (PACKAGE, os.path.normpath(os.path.join(PACKAGE, "../../../.."))):
        if os.path.isfile(os.path.join(folder, "lib/pipeline/libpipeline.so")):
            return folder
    raise ImportError(f"lib/pipeline/libpipeline.so is neither in {PACKAGE} nor four folders above: install pipeline again")


def _be_parent_of_checks():
    """Each check is a process of its own: torch is imported once for all of them, and their garbage collectors let what is there now be,
    which would be copied for each."""
    from . import table  # noqa: F401
    gc.collect()
    gc.freeze()


def _main(words, file, name, find_class, settings=contextlib.nullcontext):
    global _library
    if _loading:
        raise ConfigError(f"{_loading} starts a run while it is loaded, as other processes of a run do: begin that part with "
                          'if __name__ == "__main__":')
    prefix = _prefix()
    if _library is None:
        _library = ctypes.CDLL(os.path.join(prefix, "lib/pipeline/libpipeline.so"))
        _library.pipeline_main.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(abi.Embedding)]
        _library.pipeline_error.restype = _library.pipeline_result.restype = ctypes.c_char_p
        _library.pipeline_step.restype = ctypes.c_uint64
        atexit.register(_end, os.getpid())

    @abi.ENTRY
    def entry(address, error):
        host = Host(address, _library.pipeline_step)
        try:
            from .table import Table
            slot = ctypes.cast(_library.pipeline_data_fingerprint, ctypes.c_void_p)
            with this_process_alone(file):
                task_class = find_class()
            table = Table(host, task_class, file, slot, (command, folder) if file else None)
            _tables.append(table)
            return ctypes.addressof(table.plugin)
        except BaseException as failure:
            error[0] = host.from_exception(failure, file, code=abi.ERROR_CONFIG)
            return None

    @abi.FINGERPRINT
    def fingerprint(task, out):
        _tables[-1].data_fingerprint(task, out)
    _kept.extend((entry, fingerprint))
    command = [sys.executable, os.path.join(prefix, "lib/pipeline/python"), f"--task={file}", f"--class={name}"]
    embedding = abi.Embedding(os.fsencode(prefix), _array(command), entry, os.fsencode(file or "<notebook>"), *_stacks(),
                              "ipykernel" in sys.modules or hasattr(sys, "ps1"), fingerprint)
    arguments = ["pipeline", *words]
    folder = current_folder()  # the task may go elsewhere
    if words[:1] == ["check-plugin"]:
        _be_parent_of_checks()
    _flush()
    with _alone(words), settings(), _no_way_out():
        return _library.pipeline_main(len(arguments), _array(arguments), ctypes.byref(embedding))


def _end(process):
    """Not in a process that was forked, which has none of the plugins' threads."""
    if os.getpid() == process:
        _library.pipeline_end()


@contextlib.contextmanager
def _alone(words):
    """torch's settings and generators are of the whole process, as signal handlers are: two runs in one would change each other's."""
    global _running
    own = "pipeline " + " ".join(words)
    with _lock:
        if _running:
            raise RuntimeError(f"{own}: {_running} is not over in this process, and there is one run at a time: begin this one when that "
                               "one has ended, or in a process of its own")
        _running = own
    try:
        yield
    finally:
        _running = None


@functools.cache
def _stacks():
    """A signal, and a file into which it writes the stacks of all threads, also while one is in a call that keeps the
    interpreter's lock: for a run that hangs. (0, -1): there is none."""
    try:
        number, file = signal.SIGRTMIN + 5, os.memfd_create("stacks")
        faulthandler.register(number, file=file, all_threads=True)
        return number, file
    except (AttributeError, OSError, ValueError):
        return 0, -1


@contextlib.contextmanager
def _no_way_out():
    """os._exit() in a user's method is an error, as sys.exit() is: the run would end with its code, 0 perhaps, and no word."""
    leave, own = os._exit, os.getpid()

    def exit_of_method(code):
        if os.getpid() == own:
            raise SystemExit(code)
        leave(code)  # of a child
    os._exit = exit_of_method
    try:
        yield
    finally:
        os._exit = leave


def _array(words):
    return (ctypes.c_char_p * (len(words) + 1))(*(os.fsencode(word) for word in words), None)
