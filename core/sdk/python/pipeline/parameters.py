"""A model's parameters in the strategy's memory, and its gradients on their way to the strategy."""

import ctypes
import dataclasses
import itertools
import math
import threading

import torch

from . import abi
from .host import TaskError
from .tensors import View, current_stream, dtype_code, from_host

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


def _check_kind(name, tensor):
    if isinstance(tensor, torch.nn.parameter.UninitializedParameter):
        raise TaskError(f"parameter {name} has no shape yet: build_model() must run a batch through its lazy modules first")
    if tensor.device.type != "cpu":
        raise TaskError(f"parameter {name} is on the device {tensor.device}: build_model() must make the model on the CPU, and with values")
    if tensor.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise TaskError(f"parameter {name} is {tensor.dtype}, must be float32, bfloat16 or float16: what is not trained can be a buffer")


class ParameterTable:
    """All parameters of a model, by index. A tensor under two names is one parameter, under the first."""

    def __init__(self, host, model, units, describe):
        self._host, self._units = host, units
        self._strings = abi.Strings()
        self._shapes = []
        self.tensors, self.infos = [], []
        self._hooks = {}  # by index: of those that are bound
        self._lock = threading.Lock()  # autograd has a thread for each device
        for name, tensor in model.named_parameters():
            _check_kind(name, tensor)
            info = Parameter(_plain(name), tuple(tensor.shape), tensor.requires_grad, tensor.dim() >= 2, units.unit_of(tensor))
            info.hidden_matrix = tensor.dim() == 2 and info.unit > 0
            describe(info)
            self.tensors.append(tensor)
            self.infos.append(info)
        self.deliver_to(None)

    def fill(self, index, out):
        info = self.infos[index]
        shape = (ctypes.c_int64 * len(info.shape))(*info.shape)
        self._shapes.append(shape)
        flags = (abi.PARAMETER_TRAINABLE if info.trainable else 0) | (abi.PARAMETER_DECAY if info.decay else 0)
        flags |= abi.PARAMETER_HIDDEN_MATRIX if info.hidden_matrix else 0
        abi.Parameter.new(flags=flags, ndim=len(info.shape), unit=info.unit, shape=shape, name=self._strings(info.name),
                          lr_multiplier=info.lr_multiplier).fill(out)

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
                deliver = self._accumulating(index, tensor) if grad.data else self._handing_over(index, tensor)
                hook = tensor.register_post_accumulate_grad_hook(deliver)
        earlier, self._hooks[index] = self._hooks.get(index), hook
        if earlier is not None:
            earlier.remove()

    def check_bound(self):
        for index, info in enumerate(self.infos):
            if index not in self._hooks:
                raise TaskError(f"parameter {info.name} was not bound before the first batch")
        self._versions = [tensor._version for tensor in self.tensors]

    def check_unchanged(self):
        """After a micro-batch: a strategy may keep the values elsewhere, and other processes have their own."""
        for tensor, version, info in zip(self.tensors, self._versions, self.infos):
            if tensor._version != version:
                raise TaskError(f"parameter {info.name} was changed by the task, in place: the optimizer alone changes parameters; what "
                                "follows them, such as a moving average, is a buffer")

    def check_kept(self, model):
        """That the model still has the parameters that the strategy trains."""
        now = {_plain(name): tensor for name, tensor in model.named_parameters()}
        for tensor, info in zip(self.tensors, self.infos):
            if now.get(info.name) is not tensor:
                raise TaskError(f"parameter {info.name} was replaced during the run, and the strategy trains the tensor that "
                                "build_model() made: change its values in place")

    def deliver_to(self, sink):
        """Gradients go to this pl_gradient_sink from now on; None: a backward pass is an error."""
        self._ready, self._user = (sink.ready, sink.user) if sink else (self._nowhere, None)

    @staticmethod
    def _nowhere(user, gradient):
        raise TaskError("a gradient was computed outside of training")

    # Both hooks run once for each parameter and micro-batch: what does not change is made before.

    def _accumulating(self, index, tensor):
        bound = tensor.grad
        view = View(bound)
        gradient = abi.Gradient.new(index=index, tensor=ctypes.pointer(view.raw))
        send = self._sender(gradient, tensor.device)

        def deliver(parameter):
            if parameter.grad is not bound:
                raise TaskError(f"the gradient of {self.infos[index].name} was replaced by another tensor")
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
