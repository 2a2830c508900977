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


class Buffers:
    """Checkpoints have those that training changes, as part of the task's extra state."""

    def __init__(self, model, device, refusal):
        """refusal: why training may change none; None: it may."""
        self._refusal = refusal
        self._places = []  # (module, name in it, buffer, full name)
        for prefix, module in model.named_modules():
            for name, buffer in module._buffers.items():
                if buffer is not None:
                    self._places.append((module, name, buffer, f"{prefix}.{name}".lstrip(".")))
        self._saved = set(model.state_dict(keep_vars=True))
        self._buffers = {}
        for name, buffer in model.named_buffers():
            if buffer.device != device:
                buffer.data = buffer.to(device)
            self._buffers[name] = buffer
        self._changed = set()
        self._as_built = None  # {name: (version, digest)}, from the first micro-batch of training on
        self._looked = 0

    def watch(self):
        """Before a micro-batch of training."""
        if self._as_built is None:
            self._as_built = {name: (buffer._version, _digest(buffer)) for name, buffer in self._buffers.items()}

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
        for module, name, buffer, full_name in self._places:
            if module._buffers.get(name) is not buffer:
                raise TaskError(f"buffer {full_name} was replaced by another tensor, which no checkpoint would have: change it "
                                "in place, as self.buffer.copy_(value) does")
        for name, (version, digest) in (self._as_built or {}).items():
            buffer = self._buffers[name]
            if name not in self._changed and (_digest(buffer) != digest if by_value else buffer._version != version):
                self._changed.add(name)
        changed = [name for name in self._buffers if name in self._changed]
        lost = next((name for name in changed if name not in self._saved), None)
        if lost is not None:
            raise TaskError(f"buffer {lost} was changed in training and is not persistent, so no checkpoint would have "
                            "it: register it with persistent=True")
        if changed and self._refusal:
            raise ConfigError(f"training changes the buffer {changed[0]}, {self._refusal}")

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
