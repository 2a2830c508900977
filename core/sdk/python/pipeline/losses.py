"""The losses of a task: what each trains, when it has a turn, and with which options of the optimizer."""

import difflib

from . import abi
from .checks import checked_dict, checked_loss
from .host import TaskError
from .task import Loss, Metric, Task

_HELP = "one of the losses, whose sum is the figure loss"


def _trains(prefixes, name):
    return any(name == each or name.startswith(each.removesuffix(".") + ".") for each in prefixes)


def _check_prefix(loss, prefix, names):
    if any(_trains([prefix], name) for name in names):
        return
    parts = sorted({name.rsplit(".", end)[0] for name in names for end in range(name.count(".") + 1)})
    near = difflib.get_close_matches(prefix.removesuffix("."), parts, 1)
    raise TaskError(f"losses(): parameters of {loss!r}: no parameter or module is {prefix!r}: " +
                    (f"did you mean {near[0]}?" if near else "the model has " + ", ".join(parts[:5])))


class Losses:
    """Those of a task, by name. One that has loss() alone has one, "", which trains all parameters."""

    def __init__(self, task):
        self.are_several = type(task).losses is not Task.losses
        self._strings, self._kept = abi.Strings(), []
        self._inputs = {"": None}  # by name: the parameters of each; None: all
        if not self.are_several:
            self.all = {"": Loss(task.loss, parameters="")}
            return
        if type(task).loss is not Task.loss:
            raise TaskError(f"{type(task).__name__} has both loss() and losses(): leave one of them out")
        self.all = checked_dict(task.losses(), "losses")
        for name, loss in self.all.items():
            if not isinstance(loss, Loss):
                raise TaskError(f"losses() returned {loss!r} for {name!r}, must return a pipeline.Loss(function, parameters)")
            if not isinstance(name, str) or name in ("", "loss") or name in task.metrics:
                raise TaskError(f"losses() has the name {name!r}: must be a text that is neither \"loss\", which is their sum, nor in `metrics`")
        if not self.all:
            raise TaskError("losses() returned no loss")

    def metrics(self):
        """Of an evaluation, besides their sum."""
        return {name: Metric(_HELP) for name in self.all} if self.are_several else {}

    def of_parameters(self, infos, tensors):
        """The number of the loss that each parameter belongs to."""
        if not self.are_several:
            return [0] * len(infos)
        for name, loss in self.all.items():
            for prefix in loss.parameters:
                _check_prefix(name, prefix, [info.name for info in infos])
        owners = {info.name: [name for name, loss in self.all.items() if _trains(loss.parameters, info.name)] for info in infos if info.trainable}
        wrong = [f"{name} ({' and '.join(its) or 'none'})" for name, its in owners.items() if len(its) != 1]
        if wrong:
            raise TaskError("losses(): each parameter that is trained must belong to one loss, and these do not: " + ", ".join(wrong[:5]) +
                            (f" and {len(wrong) - 5} more" if len(wrong) > 5 else "") + ": name them in `parameters` of one, or freeze them")
        for name in self.all:
            self._inputs[name] = [tensor for info, tensor in zip(infos, tensors) if owners.get(info.name) == [name]]
            if not self._inputs[name]:
                raise TaskError(f"losses(): {name!r} trains nothing: all of its parameters are frozen")
        numbers = {name: number for number, name in enumerate(self.all)}
        return [numbers[owners[info.name][0]] if info.trainable else 0 for info in infos]

    def lr_multiplier(self, number):
        return list(self.all.values())[number].lr_multiplier

    def fill(self, number, out):
        name, loss = list(self.all.items())[number]
        options = (abi.Number * len(loss.options))(*(abi.Number(self._strings(key), value) for key, value in loss.options.items()))
        self._kept.append(options)
        abi.Loss.new(name=self._strings(name), first=loss.first, every=loss.every, options=options, option_count=len(options)).fill(out)

    def with_turn(self, idle):
        """idle: bits of those without. Name and parameters, None: all, of each."""
        return [(name, self._inputs[name]) for number, name in enumerate(self.all) if not idle >> number & 1]

    def value(self, name, batch):
        return checked_loss(self.all[name].function(batch), f"the loss {name!r}" if name else "loss()")
