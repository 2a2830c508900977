"""The C table of a Task class: each slot calls the task, and no exception leaves it."""

import ctypes
import functools
import inspect
import itertools
import operator
import pathlib
import sys

import torch

from . import abi, runtime
from .buffers import Buffers, pack, unpack
from .checks import check_numbers, checked_count, checked_dict, checked_layers, checked_metric, checked_number, \
    checked_rows, checked_weight
from .evaluation import Results, report
from .habits import uncalled
from .host import ConfigError, Context, TaskError
from .loading import Loaders
from .losses import Losses
from .modes import Modes
from .options import Schema
from .parameters import ParameterTable
from .source import digest_of
from .stray import OwnModules, OwnOptimizers, begin_call
from .task import Task
from .tensors import View, dtype_of, from_host, on_device, pinned
from .units import Units


_told_of = set()  # classes whose misspelt methods were named


class _Batch:
    def __init__(self, split, ids, data):
        self.split, self.ids, self.data = split, ids, data
        self.weight = self.tokens = self.positions = 0


class TaskObject:
    """One pl_task: a task with what the host borrows from it."""

    def __init__(self, host, context, task, options, loader_command):
        """options: by key, for the processes that load. loader_command: what starts one; None: there can be none."""
        self.host, self.context, self.task = host, Context(host, context), task
        self.run = self.context.info
        self.strings = abi.Strings()
        self.batches, self._numbers = {}, itertools.count(1)
        self.units = self.parameters = None
        self._loss = None
        self._restored = {}  # buffers of the checkpoint that this object begins with
        self._checked = self._told = self._told_of_mode = False
        self._own_optimizers, self._when = None, "before the first step"
        self._options, self._given_state = options, b""
        self._loader_command, self._loaders = loader_command, None
        task._context = self.context
        self.losses = Losses(task)

    def flag(self, flag):
        return bool(self.run.flags & flag)

    # ---------------------------------------------------------------------------------------------- slots

    def open(self):
        task, run = self.task, self.run
        if type(task) not in _told_of:
            _told_of.add(type(task))
            for line in uncalled(type(task)):
                self.context.log("warning", line)
        task.device = runtime.open_device(run)
        runtime.apply_run_settings(run.threads, self.flag(abi.RUN_REPRODUCIBLE))
        compute = dtype_of(run.compute_dtype)
        self.autocast = runtime.autocast_of(task.device, compute)
        if run.loader_processes and abi.PURPOSES[run.purpose] in ("train", "evaluate", "predict"):
            self._start_loaders(run.loader_processes)  # they start while this goes on
        task.open_data()
        if overrides(type(task), "data_fingerprint"):
            self.fingerprint = self.strings(str(task.data_fingerprint()))  # the slot itself cannot report an error
        torch.manual_seed(task.seed("initialize"))
        model = task.build_model()
        if not isinstance(model, torch.nn.Module):
            raise TaskError(f"build_model() returned {type(model).__name__}, must return a torch.nn.Module")
        # What is compiled as a whole is one unit: hooks in the middle of it would break its graph.
        compiled = _is_compiled(model)
        layers = [] if compiled else checked_layers(task.layers(model), model)
        recompute = self.flag(abi.RUN_ACTIVATION_CHECKPOINTING)
        if recompute and not layers:
            why = "the model is compiled as a whole: compile its layers instead, layer.compile()" if compiled \
                else "layers() of this task names none: write it"
            raise ConfigError(f"train.activation_checkpointing = true: {why}, or switch this off")
        if runtime.is_narrow(compute):
            runtime.widen_norms(model)
        self.units = Units(self.host, model, layers, recompute)
        self.parameters = ParameterTable(self.host, model, self.units, task.describe_parameter, self.losses)
        self.buffers = Buffers(model, task.device, run.world_size > 1, recompute)
        self.buffers.restore(self._restored)
        self.modes = Modes(model, self.parameters.trained(), task.eval_modules(model))
        if abi.PURPOSES[run.purpose] == "train" and self.modes.told():
            self.context.log("info", f"modes: {self.modes.told()}")
        self._model = task.model = model
        if overrides(type(task), "extra_state"):
            if not overrides(type(task), "set_extra_state"):
                raise TaskError("extra_state() needs set_extra_state(), which takes it back")
            self._checked_state()  # what is wrong with it is better known before the first checkpoint is due
        self._own_optimizers = OwnOptimizers(self.parameters.tensors)
        self._own_modules = None if overrides(type(task), "extra_state") else OwnModules(task)

    def prepare(self):
        self.task.prepare()

    def extra_state(self, out, size):
        self.parameters.check_unchanged(self._when)
        changed = self.buffers.changed()
        state = self._checked_state()
        self._state = pack(state, changed) if state or changed else b""
        out[0] = ctypes.cast(ctypes.c_char_p(self._state), ctypes.c_void_p)
        size[0] = len(self._state)

    def _checked_state(self):
        state = self.task.extra_state()
        if not isinstance(state, bytes):
            raise TaskError(f"extra_state() returned {type(state).__name__}, must return bytes")
        return state

    def set_extra_state(self, data, size):
        state, self._restored = unpack(ctypes.string_at(data, size))
        if state:
            self._given_state = state
            self.task.set_extra_state(state)

    def sample_count(self, split, out):
        out[0] = self._count(abi.SPLITS[split])

    def _count(self, split):
        return checked_count(self.task.sample_count(split), split)

    def sample_costs(self, split, ids, count, out):
        costs = list(self.task.costs(abi.SPLITS[split], ids[:count]))
        if len(costs) != count:
            raise TaskError(f"costs() returned {len(costs)} numbers for {count} samples")
        for i, cost in enumerate(costs):
            out[i] = cost

    def load(self, args, out):
        args = abi.LoadArgs.received_args(args)
        split, ids = abi.SPLITS[args.split], args.ids[:args.count]
        count = self._count(split)
        if max(ids) >= count:
            raise IndexError(f"sample {max(ids)} of split {split}, which has {count}")
        with torch.no_grad():
            make = self._loaders.load if self._loaders else self.task.batch
            batch = _Batch(split, ids, make(split, ids, args.epoch))
            if batch.data is None:
                raise TaskError("batch() returned None, must return a batch")
            batch.weight = checked_weight(self.task.weight(batch.data, len(ids)))
            batch.tokens, batch.positions = (int(checked_number(each(batch.data), f"{each.__name__}()")) for each in (self.task.tokens, self.task.positions))
            if self.flag(abi.RUN_PIN_MEMORY):
                batch.data = pinned(batch.data)
        number = next(self._numbers)
        self.batches[number] = batch
        out[0] = number

    def batch_info(self, number, out):
        batch = self.batches[number]
        abi.BatchInfo.new(weight=batch.weight, samples=len(batch.ids), tokens=batch.tokens,
                          positions=batch.positions).fill(out)

    def batch_free(self, number):
        del self.batches[number]

    def parameter_count(self):
        return len(self.parameters.infos)

    def parameter(self, index, out):
        self.parameters.fill(index, out)

    def initialize(self, index, out):
        with torch.no_grad():
            from_host(out[0]).copy_(self.parameters.tensors[index])

    def bind(self, index, value, grad):
        self.parameters.bind(index, value[0], grad[0])

    def set_unit_hooks(self, hooks):
        self.units.set_hooks(abi.UnitHooks.received(hooks))

    def train(self, number, args, out):
        args = abi.TrainArgs.received_args(args)
        self._when = f"in step {args.step + 1}"
        self._begin(True)
        self.task.step = args.step + 1
        self.buffers.watch()
        runtime.seed(args.seed, self.task.device)
        data = on_device(self.batches[number].data, self.task.device)
        look = self.parameters.are_looked_at()
        before = self.parameters.values(self._when) if look else None
        sums = {}
        for name, parameters in self.losses.with_turn(args.idle_losses):
            with self.units.forward_pass(), self.autocast():
                loss = self.losses.value(name, data)
            self.parameters.check_values(self._model, before, self._when)
            if look and self._own_modules:
                self._own_modules.check(self._when)
            self._backward(name, parameters, loss, args)
            sums[name] = loss.detach()
        self.buffers.check_micro_batch()
        self.parameters.check_kept(self._model, self._when)
        if self.losses.are_several:
            for name, loss in sums.items():
                self.context.metric(name, loss, self.batches[number].weight)
        self._loss = View(functools.reduce(operator.add, sums.values()))
        out[0] = self._loss.raw

    def _backward(self, name, parameters, loss, args):
        """parameters: that get a gradient; None: all."""
        if not any(info.trainable for info in self.parameters.infos):
            raise TaskError("all parameters are frozen: there is nothing to train")
        if loss.requires_grad:
            self.parameters.deliver_to(abi.GradientSink.received(args.gradients))
            try:
                with self.units.backward_pass():
                    loss.backward(torch.full((), args.scale, dtype=loss.dtype, device=loss.device), inputs=parameters)
                if parameters is None or self.parameters.have_arrived():
                    return
            finally:
                self.parameters.deliver_to(None)
        raise TaskError(f"the loss {name!r} does not lead back to any of its parameters" if name else
                        "the loss does not lead back to any parameter")

    def evaluate(self, number, args, sink):
        batch = self.batches[number]
        results = Results(self.host, abi.EvaluationSink.received(sink), batch)
        to_show = abi.EvaluateArgs.received_args(args).samples_to_show

        def work(data):
            losses = {name: self.losses.value(name, data) for name in self.losses.all}
            results.add("loss", functools.reduce(operator.add, losses.values()))
            values = checked_dict(self.task.evaluate(data), "evaluate")
            if taken := self.losses.metrics().keys() & values:
                raise TaskError(f"evaluate() returned {taken.pop()!r}, which is the name of a loss")
            for name in self.losses.metrics():
                results.add(name, losses[name])
            for name, value in values.items():
                results.add(name, value)
            self._tell_of_missing(values)
            if to_show and overrides(type(self.task), "show"):
                results.show(self.task.show(data), to_show)
        self._without_gradients(batch, work)

    def _tell_of_missing(self, values):
        """Of metrics that nothing is computed of."""
        if self._told or overrides(type(self.task), "report"):  # which may make a figure of anything
            return
        self._told = True
        for name, metric in self.task.metrics.items():
            source = metric.source or name
            if source not in values and source != "loss":
                self.context.log("warning", f"metrics[{name!r}]: evaluate() returns no {source!r}, so there is no such figure")

    def report(self, args, sink):
        args = abi.ReportArgs.received(args)
        report(self.host, self.task, args, abi.ReportSink.received(sink))

    def loss_count(self):
        return len(self.losses.all)

    def loss(self, index, out):
        self.losses.fill(index, out)

    def metric_count(self):
        return len(self.losses.metrics() | self.task.metrics)

    def metric(self, index, out):
        name, metric = list((self.losses.metrics() | self.task.metrics).items())[index]
        checked_metric(name, metric)
        abi.Metric.new(aggregate=abi.AGGREGATES[metric.aggregate], better=abi.BETTER[metric.better],
                       name=self.strings(name), source=self.strings(metric.source), help=self.strings(metric.help)).fill(out)

    def prediction_columns(self, out, count):
        self._columns = self.strings.array([str(column) for column in self.task.columns])
        out[0], count[0] = self._columns, len(self._columns)

    def sample_name(self, split, sample, out):
        out[0] = self.strings(self.task.sample_name(abi.SPLITS[split], sample))

    def predict(self, number, args, sink):
        sink, batch = abi.PredictionSink.received(sink), self.batches[number]

        def work(data):
            for sample, row in zip(batch.ids, checked_rows(self.task.predict(data), len(batch.ids), self.task.columns)):
                check_numbers(row, self.task.columns, lambda: self.task.sample_name(batch.split, sample))
                texts = [abi.string(runtime.cell(value)) for value in row]
                fields = (abi.Str * len(texts))(*texts)
                self.host.check(sink.row(sink.user, sample, fields, len(texts)))
        self._without_gradients(batch, work)

    def export_model(self, folder):
        self._begin(False)
        with torch.no_grad():
            self.task.export(pathlib.Path(folder.text()))
        if not any(pathlib.Path(folder.text()).iterdir()):
            raise TaskError(f"export() wrote nothing into {folder.text()}")

    def close(self):
        if self._loaders:
            self._loaders.close()
        if self._own_optimizers:
            self._own_optimizers.close()

    # ------------------------------------------------------------------------------------------------ parts

    def _start_loaders(self, count):
        if not self._loader_command:
            raise ConfigError(f"loader.processes = {count}: other processes cannot load a class that is only in a notebook: move "
                              "it to a file, or use the threads of loader.workers alone")
        self._loaders = Loaders(count, self._loader_command, self.context, self._options, self._given_state)

    def _begin(self, training):
        if not self._checked:
            self.parameters.check_bound()
            self._checked = True
        if self.task.model is not self._model:
            raise TaskError("self.model was replaced during the run: the strategy trains the one that build_model() made")
        strayed = self.modes.set(training)
        if strayed and not self._told_of_mode:
            self._told_of_mode = True
            self.context.log("warning", f"modes: the task left {strayed} in another mode {self._when}; each batch begins with all of them "
                                        "as they were: name in eval_modules() what is to be in eval() throughout training")
        self.task.training = training
        if not training:
            self.task.step = self.host.step()

    def _without_gradients(self, batch, work):
        if self._when.startswith("in step"):
            self._when = f"in the evaluation after {self._when[3:]}"
        self._begin(False)
        runtime.seed(self.task.seed("evaluate"), self.task.device)
        guard = torch.no_grad if abi.PURPOSES[self.run.purpose] == "train" else torch.inference_mode
        with guard(), self.units.forward_pass(), self.autocast():
            work(on_device(batch.data, self.task.device))
        self.parameters.check_kept(self._model, self._when)


def _is_compiled(model):
    dynamo = sys.modules.get("torch._dynamo")  # importing it takes a second
    return dynamo is not None and isinstance(model, dynamo.OptimizedModule) or model._compiled_call_impl is not None


def overrides(task_class, method):
    return getattr(task_class, method) is not getattr(Task, method)


class Table:
    """pl_plugin and pl_task_api of one Task class, for as long as the process lives."""

    def __init__(self, host, task_class, file, fingerprint_slot, loader_command):
        self._host, self._class, self._file, self._loader_command = host, task_class, file, loader_command
        self._objects, self._numbers = {}, itertools.count(1)
        self.schema = Schema(task_class.Options)
        if isinstance(task_class.columns, str):
            raise ConfigError(f"columns = {task_class.columns!r}: must be a sequence of names, as ({task_class.columns!r},)")
        self._strings = abi.Strings()
        self._slots = []
        self._api = abi.TaskApi.new()
        for name, type in abi.SLOTS.items():
            if name == "create":
                self._set(name, type(self._create))
            elif name == "destroy":
                self._set(name, type(self._destroy))
            elif name == "data_fingerprint":
                if overrides(task_class, name):
                    self._api.data_fingerprint = fingerprint_slot
            elif hasattr(TaskObject, name) and self._provides(name):
                self._set(name, type(self._slot(name, type)))
        summary = (inspect.getdoc(task_class) or task_class.__name__).splitlines()[0]
        self.plugin = abi.Plugin.new(
            abi_major=abi.ABI_MAJOR, abi_minor=abi.ABI_MINOR, kind=abi.PLUGIN_TASK, name=self._strings("python"),
            version=self._strings("+".join(filter(None, (task_class.version, digest_of(task_class, file))))), summary=self._strings(summary),
            runtime=self._strings(runtime.torch_tag()), options=self.schema.structs,
            option_count=len(self.schema.structs), api=ctypes.addressof(self._api))

    def _provides(self, slot):
        """Optional slots are there if the class has what they call."""
        task = self._class
        if slot in ("prediction_columns", "sample_name", "predict"):
            return bool(task.columns)
        if slot in ("loss_count", "loss"):
            return overrides(task, "losses")
        if slot in ("metric_count", "metric"):
            return bool(task.metrics) or overrides(task, "losses")
        method = {"sample_costs": "costs"}.get(slot, slot)
        return slot not in ("sample_costs", "prepare", "report") or overrides(task, method)

    def data_fingerprint(self, number, out):
        out[0] = self._objects[number].fingerprint

    def _set(self, name, function):
        self._slots.append(function)
        setattr(self._api, name, function)

    def _create(self, host, context, config, out):
        def create():
            task = self._class()
            options = self.schema.read(self._host, config)
            task.options = self.schema.build(options)
            number = next(self._numbers)
            self._objects[number] = TaskObject(self._host, context, task, options, self._loader_command)
            out[0] = number
        return self._host.guarded(self._file, "", create)

    def _destroy(self, number):
        self._objects.pop(number).close()

    def _slot(self, name, type):
        method = getattr(TaskObject, name)
        if type._restype_ is not abi.ERROR:
            return lambda number, *args: method(self._objects[number], *args)

        def call(number, *args):
            begin_call()
            return self._host.guarded(self._file, name, lambda: method(self._objects[number], *args))
        return call
