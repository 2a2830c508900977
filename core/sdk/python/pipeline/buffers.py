"""A model's tensors that are not parameters, such as BatchNorm's running statistics."""

import ctypes
import hashlib
import json
import struct

import torch

from .host import ConfigError, TaskError


_LOOKS = 2  # micro-batches after which all values are compared; later those alone whose version has changed


def _bytes(tensor):
    value = tensor.detach().cpu().contiguous()
    return ctypes.string_at(value.data_ptr(), value.numel() * value.element_size())


def _digest(tensor):
    return hashlib.blake2b(_bytes(tensor), digest_size=16).digest()


def _kind(buffer):
    return buffer.dtype, buffer.shape, buffer.device


def _version(buffer):
    return buffer._version, buffer.data_ptr()  # .data may be another tensor by now


class Buffers:
    """Checkpoints have those that training changes, as part of the task's extra state."""

    def __init__(self, model, device, several, recomputed):
        """several: processes, each with its own. recomputed: layers are, so they would change theirs twice."""
        self._refusal = ("which would differ between the processes: train on one, or use a layer without running statistics, "
                         "such as GroupNorm in place of BatchNorm, or name it in eval_modules()" if several else
                         "and recomputed layers would change it twice: set train.activation_checkpointing = false" if recomputed else None)
        self._saved = set(model.state_dict(keep_vars=True))
        self._modules = [(f"{prefix}." if prefix else "", module) for prefix, module in model.named_modules()]
        for _, module in self._modules:
            for buffer in module._buffers.values():
                if buffer is not None and buffer.device != device:
                    buffer.data = buffer.to(device)
        self._find()
        self._built_with = set(self._buffers)
        self._changed = set()
        self._as_built = {}  # {name: (version, digest)}, from the first micro-batch of training on
        self._looked = 0

    def _find(self):
        self._buffers, self._places = {}, []  # by name, one that is shared under its first; (buffers of a module, name there, buffer, name)
        seen = set()
        for prefix, module in self._modules:
            for name, buffer in module._buffers.items():
                self._places.append((module._buffers, name, buffer, prefix + name))
                if buffer is not None and buffer not in seen:
                    seen.add(buffer)
                    self._buffers[prefix + name] = buffer
        self._kinds = {name: _kind(buffer) for name, buffer in self._buffers.items()}
        self._sizes = [len(module._buffers) for _, module in self._modules]

    def watch(self):
        """Before a micro-batch of training."""
        if len(self._as_built) < len(self._buffers):
            for name, buffer in self._buffers.items():
                self._as_built.setdefault(name, (_version(buffer), _digest(buffer)))

    def check_micro_batch(self):
        """After one of training. What layers do to their buffers shows in the first ones."""
        self._looked += 1
        self._check(by_value=self._looked <= _LOOKS)

    def changed(self):
        """Those that are not as build_model() made them, for a checkpoint."""
        self._check(by_value=True)
        return {name: buffer for name, buffer in self._buffers.items() if name in self._changed}

    def _check(self, by_value):
        """Finds what has changed and refuses what may not. By value: batch_norm(), among others, raises no version."""
        is_new = False
        for holder, name, buffer, full_name in self._places:
            if holder.get(name) is not buffer and buffer is not None:
                if full_name not in self._built_with and self._is_no_state(full_name):  # a mask that grows
                    self._as_built.pop(full_name, None)
                    is_new = True
                    continue
                raise TaskError(f"buffer {full_name} was replaced by another tensor, which no checkpoint would have: change it "
                                "in place, as self.buffer.copy_(value) does")
        if is_new:
            self._find()
        for name, buffer in self._buffers.items():
            if _kind(buffer) != self._kinds[name]:
                now, before = (f"{dtype} of shape {tuple(shape)} on {device}" for dtype, shape, device in (_kind(buffer), self._kinds[name]))
                raise TaskError(f"buffer {name} is {now}, and was {before} when build_model() made it: a checkpoint of it would not fit "
                                "the model: make it as large as it will be, and change its values in place")
        for name, (version, digest) in self._as_built.items():
            buffer = self._buffers.get(name)  # None: it has another name by now
            if buffer is not None and name not in self._changed and (_digest(buffer) != digest if by_value else _version(buffer) != version):
                self._changed.add(name)
        if is_new or [len(module._buffers) for _, module in self._modules] != self._sizes or any(
                buffer is None and holder.get(name) is not None for holder, name, buffer, _ in self._places):
            self._find()  # made on the way, as masks are: they must stay as they are
            self.watch()
        changed = [name for name in self._buffers if name in self._changed]
        lost = next((name for name in changed if name not in self._saved), None)
        if lost is not None:
            how = "is not persistent" if lost in self._built_with else "was not there when build_model() had made the model"
            raise TaskError(f"buffer {lost} was changed in training and {how}, so no checkpoint would have it: register it "
                            f"{'with persistent=True' if lost in self._built_with else 'in build_model()'}")
        if changed and self._refusal:
            raise ConfigError(f"training changes the buffer {changed[0]}, {self._refusal}")

    def _is_no_state(self, full_name):
        return any(prefix + name == full_name for prefix, module in self._modules for name in module._non_persistent_buffers_set)

    def restore(self, values):
        """From a checkpoint: {name: tensor}."""
        with torch.no_grad():
            for name, value in values.items():
                buffer = self._buffers.get(name)
                if buffer is None or buffer.shape != value.shape or buffer.dtype != value.dtype:
                    has = "no such buffer" if buffer is None else f"{buffer.dtype} of shape {tuple(buffer.shape)}"
                    raise ConfigError(f"the checkpoint has a buffer {name}, {value.dtype} of shape {tuple(value.shape)}; this "
                                      f"model has {has}")
                buffer.copy_(value)
                self._changed.add(name)  # the next checkpoint has it, too


def pack(state, buffers):
    """Bytes for a checkpoint: the length of a JSON header, which names the buffers, the header, `state`, the buffers."""
    parts, described = [state], {}
    for name, buffer in buffers.items():
        described[name] = [str(buffer.dtype).removeprefix("torch."), list(buffer.shape)]
        parts.append(_bytes(buffer))
    header = json.dumps({"state": len(state), "buffers": described}).encode()
    return b"".join([struct.pack("<Q", len(header)), header, *parts])


def unpack(data):
    """(state, {name: tensor}) of what pack() made."""
    begin = 8 + struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:begin])
    state = data[begin:begin + header["state"]]
    begin += header["state"]
    buffers = {}
    for name, (dtype, shape) in header["buffers"].items():
        value = torch.empty(shape, dtype=getattr(torch, dtype))
        size = value.numel() * value.element_size()
        ctypes.memmove(value.data_ptr(), data[begin:begin + size], size)
        buffers[name], begin = value, begin + size
    return state, buffers
