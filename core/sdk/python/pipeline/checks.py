"""What the methods of a task return: as it must be, or a TaskError that names method, value and what it must be."""

import math
import operator

import torch

from . import abi
from .host import ConfigError, TaskError
from .task import Metric


def checked_layers(layers, model):
    """layers() of a task as a list."""
    layers = list(layers)
    names = {module: name for name, module in model.named_modules()}
    for layer in layers:
        if not isinstance(layer, torch.nn.Module) or layer not in names:
            raise TaskError(f"layers() returned {layer if isinstance(layer, str) else type(layer).__name__}, which is no module of "
                            "the model that build_model() made")
    for layer in layers:
        others = sum(module in layer.modules() for module in layers) + layers.count(layer) - 2
        if others:
            raise TaskError(f"layers() returned {names[layer]} twice, or with another of them inside")
    return layers


def checked_number(value, what):
    if not isinstance(value, str):
        try:
            return float(value)
        except (TypeError, ValueError, RuntimeError):
            pass
    raise TaskError(f"{what} returned {value!r}, must return a number")


def checked_weight(value):
    weight = checked_number(value, "weight()")
    if not 0 <= weight < math.inf:
        raise TaskError(f"weight() returned {weight}, must return a finite number of at least 0: the loss's sum is divided by it")
    return weight


def checked_metric(name, metric):
    if not isinstance(metric, Metric):
        raise TaskError(f"metrics[{name!r}] is {metric!r}, must be a pipeline.Metric(\"what it is\")")
    for given, known in ((metric.aggregate, abi.AGGREGATES), (metric.better, abi.BETTER)):
        if given not in known:
            raise ConfigError(f"metrics[{name!r}]: {given!r} is none of {', '.join(known)}")


def checked_rows(rows, count, columns):
    """What predict() returned, row by row."""
    if not hasattr(rows, "__iter__"):
        raise TaskError(f"predict() returned {type(rows).__name__}, must return a row for each sample")
    rows = list(rows)
    if len(rows) != count:
        raise TaskError(f"predict() returned {len(rows)} rows for a batch of {count} samples")
    for row in rows:
        if isinstance(row, str) or not hasattr(row, "__len__") or isinstance(row, torch.Tensor) and row.dim() == 0:
            raise TaskError(f"predict() returned the row {row!r}, must return a sequence with {len(columns)} value(s) for each sample: "
                            "[(value,), ...] for one column")
        if len(row) != len(columns):
            raise TaskError(f"predict() returned the row {row!r}, which has {len(row)} values for {len(columns)} columns")
        for name, value in zip(columns, row):
            numbers = value.numel() if isinstance(value, torch.Tensor) else getattr(value, "size", 1)
            if numbers != 1 or isinstance(value, (list, tuple, dict)):
                raise TaskError(f"predict() returned {value!r} in the column {name}, must return a text or one number")
    return rows


def check_numbers(row, columns, name):
    """That a row of predict() has no NaN, which its reader would take for a number."""
    for column, value in zip(columns, row):
        differs = (isinstance(value, float) or hasattr(value, "dtype")) and value != value  # for each element of an array
        if differs.any() if hasattr(differs, "any") else differs:
            raise TaskError(f"predict() returned nan in the column {column} of sample {name()}, must return a number, or \"\" where there is "
                            "none: are the model's weights ruined (try an earlier --checkpoint), or is train.precision too narrow?")


def checked_dict(values, method):
    if not isinstance(values, dict):
        raise TaskError(f"{method}() returned {type(values).__name__}, must return a dict")
    return values


def checked_count(count, split):
    """sample_count() of a task."""
    if count is None:
        return 0
    try:
        whole = operator.index(count)
    except TypeError:
        whole = -1
    if whole < 0:
        raise TaskError(f"sample_count({split!r}) returned {count!r}, must return a whole number; 0: no such split")
    return whole


def checked_loss(loss, what):
    if not isinstance(loss, torch.Tensor):
        raise TaskError(f"{what} returned {type(loss).__name__}, must return a tensor: the sum over the batch")
    if loss.dim() != 0:
        raise TaskError(f"{what} returned a tensor of shape {tuple(loss.shape)}, must return the sum, a scalar")
    if loss.dtype not in (torch.float32, torch.float64):
        raise TaskError(f"{what} returned {loss.dtype}, must return a sum in float32 or float64, as .float().sum() does")
    return loss
