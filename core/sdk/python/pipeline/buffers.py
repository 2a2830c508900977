"""A model's tensors that are not parameters, such as BatchNorm's running statistics."""

import ctypes
import json
import struct

import torch

from .host import ConfigError, TaskError


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
        self._versions = {name: buffer._version for name, buffer in self._buffers.items()}

    def changed(self):
        """Those that are not as build_model() made them."""
        return {name: buffer for name, buffer in self._buffers.items() if buffer._version != self._versions[name]}

    def check_changes(self):
        """After a micro-batch of training."""
        for module, name, buffer, full_name in self._places:
            if module._buffers.get(name) is not buffer:
                raise TaskError(f"buffer {full_name} was replaced by another tensor, which no checkpoint would have: change it "
                                "in place, as self.buffer.copy_(value) does")
        changed = self.changed()
        lost = next((name for name in changed if name not in self._saved), None)
        if lost is not None:
            raise TaskError(f"buffer {lost} was changed in training and is not persistent, so no checkpoint would have "
                            "it: register it with persistent=True")
        if changed and self._refusal:
            raise ConfigError(f"training changes the buffer {next(iter(changed))}, {self._refusal}")

    def restore(self, values):
        """From a checkpoint: {name: tensor}."""
        with torch.no_grad():
            for name, value in values.items():
                buffer = self._buffers.get(name)
                if buffer is None or buffer.shape != value.shape or buffer.dtype != value.dtype:
                    has = "no such buffer" if buffer is None else f"{buffer.dtype} of shape {tuple(buffer.shape)}"
                    raise ConfigError(f"the checkpoint has a buffer {name}, {value.dtype} of shape {tuple(value.shape)}; this "
                                      f"model has {has}")
                buffer.copy_(value)  # its version now differs: the next checkpoint has it, too


def pack(state, buffers):
    """Bytes for a checkpoint: the length of a JSON header, which names the buffers, the header, `state`, the buffers."""
    parts, described = [state], {}
    for name, buffer in buffers.items():
        value = buffer.detach().cpu().contiguous()
        described[name] = [str(value.dtype).removeprefix("torch."), list(value.shape)]
        parts.append(ctypes.string_at(value.data_ptr(), value.numel() * value.element_size()))
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
