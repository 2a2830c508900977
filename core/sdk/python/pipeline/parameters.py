"""A model's parameters in the strategy's memory, and its gradients on their way to the strategy."""

import ctypes
import dataclasses
import itertools
import threading

import torch

from . import abi
from .tensors import View, current_stream, from_host

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


class ParameterTable:
    """All parameters of a model, by index. A tensor under two names is one parameter, under the first."""

    def __init__(self, host, model, unit_of, describe):
        self._host = host
        self._strings = abi.Strings()
        self._shapes = []
        self.tensors, self.infos = [], []
        self._hooks = {}  # by index: of those that are bound
        self._sink = None
        self._lock = threading.Lock()  # autograd has a thread for each device
        for name, tensor in model.named_parameters():
            name = name.replace("_orig_mod.", "")  # of torch.compile: a checkpoint fits the model without it
            info = Parameter(name, tuple(tensor.shape), tensor.requires_grad, tensor.dim() >= 2, unit_of(tensor))
            describe(info)
            self.tensors.append(tensor)
            self.infos.append(info)

    def fill(self, index, out):
        info = self.infos[index]
        shape = (ctypes.c_int64 * len(info.shape))(*info.shape)
        self._shapes.append(shape)
        flags = (abi.PARAMETER_TRAINABLE if info.trainable else 0) | (abi.PARAMETER_DECAY if info.decay else 0)
        abi.Parameter.new(flags=flags, ndim=len(info.shape), unit=info.unit, shape=shape, name=self._strings(info.name),
                          lr_multiplier=info.lr_multiplier).fill(out)

    def bind(self, index, value, grad):
        """From now on the model computes with the strategy's memory; what it had allocated is freed."""
        tensor, info = self.tensors[index], self.infos[index]
        with torch.no_grad():
            tensor.grad = None
            if value.data:
                tensor.data = from_host(value)
            tensor.requires_grad_(info.trainable)
            hook = None
            if info.trainable:
                if hasattr(tensor, "grad_dtype"):
                    tensor.grad_dtype = None  # a gradient that is summed in float32 stays in float32
                accumulates = bool(grad.data)
                if accumulates:
                    tensor.grad = from_host(grad)
                hook = tensor.register_post_accumulate_grad_hook(lambda t: self._ready(index, t, accumulates))
        earlier, self._hooks[index] = self._hooks.get(index), hook
        if earlier is not None:
            earlier.remove()

    def check_bound(self):
        for index, info in enumerate(self.infos):
            if index not in self._hooks:
                raise RuntimeError(f"parameter {info.name} was not bound before the first batch")

    def deliver_to(self, sink):
        """Gradients go to this pl_gradient_sink from now on; None: a backward pass is an error."""
        self._sink = sink

    def _ready(self, index, tensor, accumulates):
        if self._sink is None:
            raise RuntimeError(f"a gradient of {self.infos[index].name} was computed outside of training")
        if tensor.grad is None:
            return
        with self._lock:
            gradient = abi.Gradient.new(index=index, stream=current_stream(tensor.device))
            value = tensor.grad
            if not accumulates:  # handed over: the strategy's from here on, even if it fails
                tensor.grad = None
                if value.dtype == torch.float64:
                    value = value.to(tensor.dtype)
                value = value.contiguous()
                gradient.owner, gradient.release = next(_numbers), _release
                _owned[gradient.owner] = value
            view = View(value)
            gradient.tensor = ctypes.pointer(view.raw)
            self._host.check(self._sink.ready(self._sink.user, ctypes.byref(gradient)))
