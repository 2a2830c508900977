"""A model's parameters in the strategy's memory, and its gradients on their way to the strategy."""

import ctypes
import dataclasses
import itertools
import math
import operator
import threading

import torch

from . import abi
from .host import TaskError
from .tensors import View, current_stream, dtype_code, from_host

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes
_owned = {}  # gradients that a strategy owns, by number
_numbers = itertools.count(1)


@abi.RELEASE
def _release(number):
    _owned.pop(number, None)


@dataclasses.dataclass
class Parameter:
    """What a strategy needs to know of a parameter. `describe_parameter` of a task may change what is not `name`."""

    name: str
    shape: tuple
    trainable: bool
    decay: bool  # weight decay applies
    unit: int
    lr_multiplier: float = 1.0
    hidden_matrix: bool = False  # of a hidden layer: what optimizer.kind = "muon" is for

    def __setattr__(self, name, value):
        if name not in self.__dataclass_fields__:
            raise AttributeError(f"a parameter has no {name}: {', '.join(self.__dataclass_fields__)}")
        if name == "lr_multiplier" and not (isinstance(value, (int, float)) and 0 <= value < math.inf):
            raise ValueError(f"lr_multiplier = {value!r}: must be a finite number of at least 0")
        super().__setattr__(name, value)


def _plain(name):
    """Without what torch.compile puts in: a checkpoint fits the model that is not compiled, too."""
    return name.replace("_orig_mod.", "")


def _all_names(model):
    return {_plain(name): tensor for name, tensor in model.named_parameters(remove_duplicate=False)}


def _facts(tensors):
    return [(tensor._version, tensor.requires_grad, tensor.grad is None, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
            for tensor in tensors]


def sum_of_bits(values):
    whole = values.numel() - values.numel() % (8 // values.element_size())  # in words of 64 bits, the fastest to add up
    return values[:whole].view(torch.int64).sum() + values[whole:].view(_INTEGERS[values.element_size()]).sum()


def _changed_in_place(info, when):
    return (f"parameter {info.name} was changed by the task, in place, {when}: the optimizer alone changes parameters; what follows them, "
            "such as a moving average, is a buffer")


def _what_changed(info, now, before, when):
    """In words, for a parameter whose facts are not as they were."""
    if now[0] != before[0]:
        return _changed_in_place(info, when)
    if now[1] != before[1]:
        return (f"requires_grad of parameter {info.name} was {'switched on' if now[1] else 'switched off'} {when}: what a run trains is "
                "decided before its first step, in build_model() or describe_parameter(). To train it later, or no longer, write a "
                "[[stage]] for each part, with an option that describe_parameter() reads")
    if now[2] != before[2]:
        return (f"the gradient of parameter {info.name} was taken away {when}: zero_grad() is the run's to call" if now[2] else
                f"parameter {info.name}, which is not trained, was given a gradient {when}: decide what is trained before the first step, "
                "in build_model() or describe_parameter()")
    seen, expected = (f"{dtype} of shape {tuple(shape)}" for *_, dtype, shape, _ in (now, before))
    if seen == expected:
        seen, expected = "in another place in memory", "in the memory"
    return (f"parameter {info.name} was moved {when}: it is {seen}, must be {expected} that the strategy trains. Convert what the loss "
            "computes with, not the model; train.precision says what it computes in")


def _check_kind(name, tensor):
    if isinstance(tensor, torch.nn.parameter.UninitializedParameter):
        raise TaskError(f"parameter {name} has no shape yet: build_model() must run a batch through its lazy modules first")
    if tensor.device.type != "cpu":
        raise TaskError(f"parameter {name} is on the device {tensor.device}: build_model() must make the model on the CPU, and with values")
    if tensor.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise TaskError(f"parameter {name} is {tensor.dtype}, must be float32, bfloat16 or float16: what is not trained can be a buffer")


class ParameterTable:
    """All parameters of a model, by index. A tensor under two names is one parameter, under the first."""

    def __init__(self, host, model, units, describe, losses):
        self._host, self._units = host, units
        self._strings = abi.Strings()
        self._shapes = []
        self.tensors, self.infos = [], []
        self._names = _all_names(model)
        self._first_values, self._micro_batches = None, 0
        self._note_places(model)
        self._hooks = {}  # by index: of those that are bound
        self._lock = threading.Lock()  # autograd has a thread for each device
        for name, tensor in model.named_parameters():
            _check_kind(name, tensor)
            info = Parameter(_plain(name), tuple(tensor.shape), tensor.requires_grad, tensor.dim() >= 2, units.unit_of(tensor))
            info.hidden_matrix = tensor.dim() == 2 and info.unit > 0
            describe(info)
            self.tensors.append(tensor)
            self.infos.append(info)
        self._losses, self._loss_of = losses, losses.of_parameters(self.infos, self.tensors)
        self._facts = [None] * len(self.tensors)  # of those that are bound, as they must stay
        self._gradients = {}  # by index, with their versions: of those that a strategy has bound
        self._is_trained = torch.tensor([info.trainable for info in self.infos])
        self.deliver_to(None)

    def trained(self):
        return {tensor for tensor, info in zip(self.tensors, self.infos) if info.trainable}

    def fill(self, index, out):
        info = self.infos[index]
        shape = (ctypes.c_int64 * len(info.shape))(*info.shape)
        self._shapes.append(shape)
        flags = (abi.PARAMETER_TRAINABLE if info.trainable else 0) | (abi.PARAMETER_DECAY if info.decay else 0)
        flags |= abi.PARAMETER_HIDDEN_MATRIX if info.hidden_matrix else 0
        abi.Parameter.new(flags=flags, ndim=len(info.shape), unit=info.unit, shape=shape, name=self._strings(info.name),
                          lr_multiplier=info.lr_multiplier * self._losses.lr_multiplier(self._loss_of[index]),
                          loss=self._loss_of[index]).fill(out)

    def bind(self, index, value, grad):
        """From now on the model computes with the strategy's memory; what it had allocated is freed."""
        tensor, info = self.tensors[index], self.infos[index]
        hook = None
        with torch.no_grad():
            tensor.grad = None
            if value.data:
                tensor.data = from_host(value)
            tensor.requires_grad_(info.trainable)
            if info.trainable:
                if hasattr(tensor, "grad_dtype"):
                    tensor.grad_dtype = None  # a gradient that is summed in float32 stays in float32
                if grad.data:
                    tensor.grad = from_host(grad)
                    self._gradients[index] = tensor.grad, tensor.grad._version
                deliver = self._accumulating(index, tensor) if grad.data else self._handing_over(index, tensor)
                hook = tensor.register_post_accumulate_grad_hook(deliver)
        self._facts[index], = _facts([tensor])
        earlier, self._hooks[index] = self._hooks.get(index), hook
        if earlier is not None:
            earlier.remove()

    def check_bound(self):
        for fact, info in zip(self._facts, self.infos):
            if fact is None:
                raise TaskError(f"parameter {info.name} was not bound before the first batch")

    def check_kept(self, model, when):
        """After a batch: that the model has the parameters, and they are the memory, that the strategy trains. It may keep the
        values elsewhere meanwhile, and other processes have their own. when: for messages."""
        holders, names, values = self._places
        if not all(map(operator.is_, map(dict.get, holders, names), values)) or list(map(len, self._holders)) != self._sizes:
            self._check_names(model, when)
            self._note_places(model)
        facts = _facts(self.tensors)
        if facts != self._facts:
            index = next(i for i, fact in enumerate(facts) if fact != self._facts[i])
            raise TaskError(_what_changed(self.infos[index], facts[index], self._facts[index], when))

    def check_unchanged(self, when):
        """Before a checkpoint, of what the strategy holds."""
        for tensor, fact, info in zip(self.tensors, self._facts, self.infos):
            if fact is not None and tensor._version != fact[0]:
                raise TaskError(_changed_in_place(info, when))
        self.values(when)

    def _note_places(self, model):
        """Where a module has its parameters and modules: seven times faster to compare than all names."""
        modules = list(model.modules())
        self._holders = [holder for module in modules for holder in (module._parameters, module._modules)]
        self._sizes = list(map(len, self._holders))
        places = [(holder, name, value) for holder in self._holders for name, value in holder.items()]
        self._places = list(zip(*places)) or [(), (), ()]

    def _check_names(self, model, when):
        now = _all_names(model)
        for name, tensor in self._names.items():
            if now.get(name) is not tensor:
                raise TaskError(f"parameter {name} was {'replaced' if name in now else 'removed'} {when}, and the strategy trains the "
                                "tensor that build_model() made: change what the loss computes with it, not the model")
        for name in now:
            if name not in self._names:
                raise TaskError(f"parameter {name} was added {when}, so the strategy does not train it and no checkpoint would have it: "
                                "make it in build_model()")

    def values(self, when):
        """A number for each tensor that follows from all its bits; None: a strategy holds one layer's at a time."""
        if self._units.are_held or None in self._facts:
            return None
        with torch.no_grad():
            now = torch.stack([sum_of_bits(tensor.detach().view(-1)) for tensor in self.tensors])
        if self._first_values is None:
            self._first_values = now
        self._check_values(torch.where(self._is_trained.to(now.device), now, self._first_values), now, when)
        return now

    def are_looked_at(self):
        """Whether all values are compared in this micro-batch: in 1, 2, 4, 8 and so on, since all memory is read."""
        self._micro_batches += 1
        return self._micro_batches & (self._micro_batches - 1) == 0

    def check_values(self, model, before, when):
        """Against what values() returned: a change through .data raises no version."""
        if before is not None:
            self.check_kept(model, when)
            self._check_values(before, self.values(when), when)

    def _check_values(self, before, now, when):
        if not torch.equal(before, now):
            raise TaskError(_changed_in_place(self.infos[int((before != now).nonzero()[0])], when))

    def have_arrived(self):
        """Whether any gradient came since deliver_to()."""
        return bool(self._arrived)

    def deliver_to(self, sink):
        """Gradients go to this pl_gradient_sink from now on; None: a backward pass is an error."""
        self._ready, self._user = (sink.ready, sink.user) if sink else (None, None)
        self._arrived = set()  # numbers of parameters, in this micro-batch
        if sink is None:
            self._gradients = {index: (gradient, gradient._version) for index, (gradient, _) in self._gradients.items()}
        for index, (gradient, version) in self._gradients.items():
            if gradient._version != version:
                raise TaskError(f"the gradient of {self.infos[index].name} was changed by the task, in place: it is the run's alone, and the sum "
                                "over micro-batches; train.clip_grad_norm clips it")

    # Both hooks run once for each parameter and micro-batch: what does not change is made before.

    def _arrive(self, index):
        if self._ready is not None and index not in self._arrived:
            self._arrived.add(index)
            return
        name = self.infos[index].name
        if self._ready is None:
            raise TaskError(f"backward() was called by the task and gave {name} a gradient, which would be added to those of the run. The "
                            "run computes them, of the sum that loss() returns: return the sum of all losses, each with detach() where it is "
                            "to train nothing, or write losses(), of which each trains parameters of its own. For a penalty on gradients, "
                            "torch.autograd.grad() leaves those of the weights alone")
        raise TaskError(f"the gradient of {name} came twice in one micro-batch: backward() was called in a hook, or a weight is used in "
                        "several parts that are recomputed with use_reentrant=True: use False")

    def _accumulating(self, index, tensor):
        bound = tensor.grad
        view = View(bound)
        gradient = abi.Gradient.new(index=index, tensor=ctypes.pointer(view.raw))
        send = self._sender(gradient, tensor.device)

        def deliver(parameter):
            self._arrive(index)
            if parameter.grad is not bound:
                raise TaskError(f"the gradient of {self.infos[index].name} was replaced by another tensor: zero_grad() is the run's to call")
            send()
        return deliver

    def _handing_over(self, index, tensor):
        view, info = View(tensor), self.infos[index]
        raw = view.raw
        gradient = abi.Gradient.new(index=index, tensor=ctypes.pointer(raw), release=_release)
        send = self._sender(gradient, tensor.device)

        def deliver(parameter):
            value = parameter.grad
            if value is None:
                return
            parameter.grad = None  # the strategy's from here on, even if it fails
            self._arrive(index)
            self._units.check_entered(info.unit, info.name)
            if value.layout is not torch.strided:  # of nn.Embedding(sparse=True)
                value = value.to_dense()
            if value.dtype is not view.dtype:
                if value.dtype is torch.float64:
                    value = value.to(parameter.dtype)
                raw.dtype, view.dtype = dtype_code(value.dtype), value.dtype
            if not value.is_contiguous():
                value = value.contiguous()
            raw.data = value.data_ptr()
            gradient.owner = number = next(_numbers)
            _owned[number] = value
            send()
        return deliver

    def _sender(self, gradient, device):
        address = ctypes.addressof(gradient)

        def send(kept=gradient):  # what is at the address must live as long as this function
            error = self._ready(self._user, address)
            if error:
                self._host.check(error)

        def send_in_order():  # autograd has a thread for each device
            with self._lock:
                gradient.stream = current_stream(device)
                send()
        return send if device.type == "cpu" else send_in_order
