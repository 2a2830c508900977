"""What a task has beside its model: optimizers and modules of its own. What changes there, no checkpoint would have."""

import itertools
import threading
import weakref

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.weak import WeakIdKeyDictionary

from .host import TaskError
from .parameters import sum_of_bits

_calls = itertools.count(1)
_thread = threading.local()  # call: the number of the method of the task that runs in it


def begin_call():
    """A method of a task begins in this thread."""
    _thread.call = next(_calls)


class OwnOptimizers:
    """Refuses their step() as long as this is not closed. One may move tensors that live as long as the call does, as where
    evaluate() fits a probe to features."""

    def __init__(self, parameters):
        """parameters: of the model."""
        self._of_model = set(parameters)
        self._moved = WeakIdKeyDictionary()  # tensor: the call in which it was first
        self._hook = register_optimizer_step_pre_hook(self._before_step)

    def close(self):
        self._hook.remove()

    def _before_step(self, optimizer, *_):
        call = getattr(_thread, "call", None)
        for parameter in (each for group in optimizer.param_groups for each in group["params"]):
            if parameter in self._of_model:
                raise TaskError(f"step() of an optimizer of the task's own, {type(optimizer).__name__}, would change parameters of the model: "
                                "the run's optimizer alone changes them, by the gradients of what loss() returns. Options of "
                                "[optimizer] and describe_parameter() say how, and where several train parameters of their own, in turns, losses()")
            if self._moved.setdefault(parameter, call) != call:
                raise TaskError(f"step() of an optimizer of the task's own, {type(optimizer).__name__}, changes tensors that are no part of the "
                                "model, over several calls, so no checkpoint would have them: make them in build_model(), as a part of "
                                "what it returns, and add their loss to what loss() returns, with detach() where it is to train nothing "
                                "else, or as one of losses(), which trains its own parameters alone")


class OwnModules:
    """Refuses those whose tensors change, such as an average of the model, where the task does not save its state itself."""

    def __init__(self, task):
        self._task, self._of_model = task, {*task.model.modules(), *task.model.parameters(), *task.model.buffers()}
        self._seen = weakref.WeakKeyDictionary()  # of each module: by name, a number that follows from all bits of a tensor

    def check(self, when):
        for name, module in self._found():
            seen = self._seen.setdefault(module, {})
            for inner, tensor in itertools.chain(module.named_parameters(), module.named_buffers()):
                if tensor in self._of_model or torch.nn.parameter.is_lazy(tensor) or tensor.layout is not torch.strided \
                        or tensor.is_meta or tensor.is_quantized or tensor.element_size() > 8:  # complex numbers
                    continue
                bits = int(sum_of_bits(tensor.detach().reshape(-1).clone()))  # a part of another's memory may begin between words
                if seen.setdefault(inner, bits) != bits:
                    raise TaskError(f"{inner} of self.{name}, which is no part of the model, has changed {when}, and no checkpoint would have "
                                    "it: make it in build_model(), as a part of what it returns, in buffers where it only follows "
                                    "the model; or save it in extra_state()")

    def _found(self):
        for name, value in list(vars(self._task).items()):
            for each in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(each, torch.nn.Module) and each not in self._of_model:
                    yield name, each
