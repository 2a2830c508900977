"""Units: a strategy may hold the parameters of one layer at a time, and activations may be recomputed by layer.

The backward pass of a unit lies between the backward of two identity functions: the one around its outputs enters,
the one around its inputs leaves. All gradients of the unit arrive in between, since autograd runs first what was
recorded last. core/sdk/include/pipeline/torch/units.hpp does the same for tasks in C++.
"""

import contextlib

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils.checkpoint import checkpoint

from . import abi
from .host import TaskError


class _Identity(torch.autograd.Function):
    """tensors -> the same; `tell` is called in the backward pass."""

    @staticmethod
    def forward(ctx, tell, *tensors):
        ctx.tell = tell
        ctx.set_materialize_grads(False)
        return tuple(tensor.detach() for tensor in tensors)

    @staticmethod
    def backward(ctx, *gradients):
        ctx.tell()
        return (None, *gradients)


def _through(tell, tree):
    """Passes all tensors in the tree that need a gradient through one identity, and returns its node; None: there are none."""
    leaves, structure = tree_flatten(tree)
    where = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not where or not torch.is_grad_enabled():
        return tree, None
    for i, tensor in zip(where, _Identity.apply(tell, *(leaves[i] for i in where))):
        leaves[i] = tensor
    return tree_unflatten(leaves, structure), leaves[where[0]].grad_fn


class Units:
    """Runs each layer as a unit. The rest of the model is a unit, too, the root: number 0, open for the whole pass."""

    def __init__(self, host, model, layers, recompute):
        self._host, self._recompute = host, recompute
        self._hooks = None
        self._open = []  # in the backward pass: (unit, whether it leaves by itself)
        self._entered = set()  # in this forward pass
        holders = {}  # of each parameter: the layers, or None for the rest of the model, that have it
        inside = {module: layer for layer in layers for module in layer.modules()}
        for module in model.modules():
            for parameter in module.parameters(recurse=False):
                holders.setdefault(parameter, set()).add(inside.get(module))
        # A weight that several of them share is held as long as the root is.
        of_root = {parameter for parameter, who in holders.items() if len(who) > 1 or None in who}
        self.has_root = bool(of_root)
        self._number = {layer: number for number, layer in enumerate(layers, 1 if of_root else 0)}
        self._unit_of = {parameter: 0 if parameter in of_root else self._number[next(iter(who))]
                         for parameter, who in holders.items()}
        for layer, number in self._number.items():
            # A layer is compiled inside of its unit: the hooks are no part of the graph.
            method = "forward" if layer._compiled_call_impl is None else "_compiled_call_impl"
            setattr(layer, method, self._wrapped(number, getattr(layer, method)))

    def unit_of(self, parameter):
        return self._unit_of[parameter]

    def check_entered(self, unit, parameter):
        """Of a gradient: where a strategy holds one unit at a time, a weight that was used outside of its layer had no values."""
        if self._hooks is not None and unit not in self._entered:
            raise TaskError(f"{parameter} was used without calling the layer that it belongs to: only within such a call does "
                            "this strategy hold its values; call the layer, or let layers() name another")

    @property
    def are_held(self):
        """Whether a unit's values are there only while it is open."""
        return self._hooks is not None

    def set_hooks(self, hooks):
        self._hooks = hooks

    @contextlib.contextmanager
    def forward_pass(self):
        self._entered = {0} if self.has_root else set()
        self._root("enter", abi.PASS_FORWARD)
        yield
        self._root("leave", abi.PASS_FORWARD)

    @contextlib.contextmanager
    def backward_pass(self):
        self._open = []
        self._root("enter", abi.PASS_BACKWARD)
        yield
        self._close(lambda unit, leaves: True)  # what is still open
        self._root("leave", abi.PASS_BACKWARD)

    def _root(self, what, which_pass):
        if self.has_root:
            self._call(what, 0, which_pass)

    def _wrapped(self, unit, forward):
        def run(*args, **kwargs):
            return self._run(unit, forward, args, kwargs)
        return run

    def _run(self, unit, forward, args, kwargs):
        # Even without hooks, a unit sums its own gradients of an input before others are added to them: otherwise
        # a sum of three would have another order, and other bits.
        self._entered.add(unit)
        self._call("enter", unit, abi.PASS_FORWARD)
        (args, kwargs), inputs = _through(lambda: self._close(lambda other, _: other == unit), (args, kwargs))
        if self._recompute and torch.is_grad_enabled():
            outputs = checkpoint(forward, *args, use_reentrant=False, **kwargs)
        else:
            outputs = forward(*args, **kwargs)
        if self._hooks is not None:
            outputs, _ = _through(lambda: self._enter_backward(unit, inputs), outputs)
        self._call("leave", unit, abi.PASS_FORWARD)
        return outputs

    def _enter_backward(self, unit, inputs):
        # A backward pass that is for the parameters of one loss may end in the unit.
        leaves = inputs is not None and torch._C._will_engine_execute_node(inputs)
        self._close(lambda _, leaves: not leaves)  # done by now: it recorded everything after this unit did
        self._call("enter", unit, abi.PASS_BACKWARD)
        self._open.append((unit, leaves))

    def _close(self, done):
        closing = [each for each in self._open if done(*each)]
        self._open = [each for each in self._open if each not in closing]
        for unit, _ in closing:
            self._call("leave", unit, abi.PASS_BACKWARD)

    def _call(self, what, unit, which_pass):
        if self._hooks is not None:
            self._host.check(getattr(self._hooks, what)(self._hooks.user, unit, which_pass))
