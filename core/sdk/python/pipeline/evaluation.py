"""What an evaluation yields: values, records of single samples, and figures that are made of all of them."""

import ctypes

import torch

from . import abi
from .checks import checked_dict
from .host import TaskError


class Results:
    """Those of one batch."""

    def __init__(self, host, sink, batch):
        self._host, self._sink, self._batch = host, sink, batch

    def add(self, name, value):
        if isinstance(value, torch.Tensor) and value.dim() > 0:
            return self._add_records(name, value)
        try:
            total, weight = value if isinstance(value, tuple) else (value, self._batch.weight)
            total, weight = float(total), float(weight)
        except (TypeError, ValueError) as error:
            raise TaskError(f"evaluate() returned {value!r} for {name!r}, must return a sum or (sum, weight)") from error
        self._host.check(self._sink.value(self._sink.user, abi.string(""), abi.string(name), total, weight))

    def _add_records(self, name, rows):
        ids = self._batch.ids
        if len(rows) != len(ids):
            raise TaskError(f"evaluate() returned {name} of shape {tuple(rows.shape)} for a batch of {len(ids)} samples: must be "
                            "a sum, or have one row for each sample")
        rows = rows.detach().to("cpu", torch.float64).contiguous()
        header = b"".join(size.to_bytes(8, "little") for size in rows.shape[1:])
        for sample, row in zip(ids, rows):
            data = len(rows.shape[1:]).to_bytes(8, "little") + header
            data += ctypes.string_at(row.data_ptr(), row.numel() * 8)
            self._host.check(self._sink.record(self._sink.user, sample, abi.string(name), data, len(data)))

    def show(self, texts, count):
        texts = list(texts)
        if len(texts) != len(self._batch.ids):
            raise TaskError(f"show() returned {len(texts)} texts for a batch of {len(self._batch.ids)} samples")
        for sample, text in list(zip(self._batch.ids, texts))[:count]:
            self._host.check(self._sink.sample(self._sink.user, sample, abi.string(str(text))))


def _row(record):
    """The tensor of one record."""
    data = ctypes.string_at(record.bytes, record.size)
    sizes = [int.from_bytes(data[i:i + 8], "little") for i in range(0, 8 * (1 + data[0]), 8)][1:]
    row = torch.empty(sizes, dtype=torch.float64)
    ctypes.memmove(row.data_ptr(), data[8 * (1 + len(sizes)):], row.numel() * 8)
    return row


def report(host, task, args, sink):
    """Calls the task's report(), which sees the whole evaluation."""
    values = {value.name.text(): (value.sum, value.weight) for value in args.values[:args.value_count]
              if not value.group.len}
    rows = {}
    for record in args.records[:args.record_count]:
        rows.setdefault(record.key.text(), []).append(_row(record))
    figures = checked_dict(task.report(values, {name: torch.stack(each) for name, each in rows.items()}), "report")
    for name, figure in figures.items():
        try:
            value, better = figure if isinstance(figure, tuple) else (figure, "lower")
            value, better = float(value), abi.BETTER[better]
        except (TypeError, ValueError, KeyError) as error:
            raise TaskError(f'report() returned {figure!r} for {name!r}, must return a number or (number, "higher")') from error
        host.check(sink.figure(sink.user, abi.string(name), value, better))
