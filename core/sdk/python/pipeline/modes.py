"""Which parts of a model are in train() and which in eval() while it trains."""

from .host import TaskError


class Modes:
    """Decided once, from what build_model() left and which parameters are trained; then kept, whatever a task does to them."""

    def __init__(self, model, trained, asked):
        """trained: the parameters that are. asked: what eval_modules() of the task returned."""
        self._model, self._trained = model, trained
        self._names = {module: name or type(module).__name__ for name, module in model.named_modules()}
        self._stay = [each for module in self._checked(asked) for each in module.modules()]
        self._as_left, self._woken, seen = [], [], set(self._stay)
        self._find(model, model, seen)
        left = [each for module in self._as_left for each in module.modules() if not each.training]
        self._stay += left
        self._left_count = len(set(left))
        self._training = None
        self.set(True)
        self._woken = [module for module in self._woken if module.training]  # some classes have a train() of their own

    def _checked(self, asked):
        asked = list(asked)
        for module in asked:
            if module not in self._names:
                raise TaskError(f"eval_modules() returned {module if isinstance(module, str) else type(module).__name__}, which is no "
                                "module of the model that build_model() made")
        return asked

    def _find(self, module, parent, seen):
        """The topmost modules that are in eval(): one that has a trained parameter goes to train() with all below, as
        model.train() does it. One that has no parameters, such as a Dropout of a model that was taken apart, is as its parent."""
        if module in seen:
            return
        seen.add(module)
        if module.training:
            for child in module.children():
                self._find(child, module, seen)
            return
        holder = parent if next(module.parameters(), None) is None else module
        if (holder is module or not _has_statistics(module)) and self._trains(holder.parameters()):
            for each in module.modules():
                seen.add(each)
                if not each.training:
                    frozen = _has_statistics(each) and not self._trains(each.parameters(recurse=False))
                    (self._as_left if frozen else self._woken).append(each)
        else:
            self._as_left.append(module)

    def _trains(self, parameters):
        return any(parameter in self._trained for parameter in parameters)

    def told(self):
        """One line on what build_model() left in eval(); "": it left nothing."""
        names = ", ".join([self._names[module] for module in self._as_left[:4]] + ["..."] * (len(self._as_left) > 4))
        parts = [f"{len(self._woken)} are trained and go to train()"] * bool(self._woken)
        parts += [f"{self._left_count} stay there, since nothing in them is trained: {names}"] * bool(self._as_left)
        return f"of the modules that build_model() left in eval(), {', and '.join(parts)}" if parts else ""

    def set(self, training):
        """Before each micro-batch and each batch of an evaluation. Returns the name of a module that was put into another
        mode since the last time; None: none was."""
        strayed = None
        if self._training is not None:
            strayed = next((module for module, mode in self._kept if module.training is not mode), None)
        if strayed is not None or training is not self._training:
            self._model.train(training)
            for module in self._stay:
                module.training = False
            self._training = training
            self._kept = [(module, module.training) for module in self._model.modules()]
        return strayed and self._names.get(strayed, type(strayed).__name__)


def _has_statistics(module):
    """Of BatchNorm's kind: in train() it computes otherwise, and changes its running statistics."""
    return any(name.startswith("running_") and buffer is not None for name, buffer in module._buffers.items())
