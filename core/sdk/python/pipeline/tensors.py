"""Tensors across the ABI without a copy: pl_tensor is DLPack's DLTensor."""

import ctypes
from ctypes import POINTER, Structure, c_int64, c_void_p

import torch
from torch.utils import dlpack
from torch.utils._pytree import tree_map

from . import abi

_DTYPES = {(2, 32): torch.float32, (2, 64): torch.float64, (2, 16): torch.float16, (4, 16): torch.bfloat16,
           (0, 64): torch.int64, (0, 32): torch.int32, (1, 8): torch.uint8, (6, 8): torch.bool}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}


class _Managed(Structure):  # DLManagedTensor
    pass


_DELETER = ctypes.CFUNCTYPE(None, POINTER(_Managed))
_Managed._fields_ = [("tensor", abi.Tensor), ("context", c_void_p), ("deleter", _DELETER)]
_lent = {}  # by address: what a tensor of torch's refers to, until torch has done with it


@_DELETER
def _release(managed):
    _lent.pop(ctypes.addressof(managed.contents), None)


# Tensors may live longer than this module.
for _immortal in (_lent, _release):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_immortal))
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [c_void_p, ctypes.c_char_p, c_void_p]


def dtype_of(code):
    """The torch.dtype of a pl_dtype."""
    return _DTYPES[code.code, code.bits]


def dtype_code(dtype):
    """The pl_dtype of a torch.dtype."""
    return abi.Dtype(*_CODES[dtype], 1)


def device_of(device):
    """The torch.device of a pl_device."""
    return torch.device("cuda", device.id) if device.type == abi.DEVICE_CUDA else torch.device("cpu")


def from_host(view):
    """A tensor over the memory of a pl_tensor, which must outlive it."""
    shape = (c_int64 * view.ndim)(*view.shape[:view.ndim])
    managed = _Managed(deleter=_release)
    managed.tensor = abi.Tensor(view.data, view.device, view.ndim, view.dtype, shape, None, view.byte_offset)
    address = ctypes.addressof(managed)
    _lent[address] = managed, shape
    return dlpack.from_dlpack(_new_capsule(address, b"dltensor", None))


class View:
    """A pl_tensor that borrows the memory of a contiguous tensor; keep it as long as the other side may read it."""

    def __init__(self, tensor):
        self.tensor, self.dtype = tensor.detach(), tensor.dtype
        self.shape = (c_int64 * tensor.dim())(*tensor.shape)
        device = abi.Device(abi.DEVICE_CUDA, tensor.device.index) if tensor.is_cuda else abi.Device(abi.DEVICE_CPU, 0)
        self.raw = abi.Tensor(tensor.data_ptr(), device, tensor.dim(), dtype_code(tensor.dtype), self.shape,
                              None, 0)


def current_stream(device):
    """The pl_stream that this thread works on."""
    if device.type == "cpu":
        return abi.Stream()
    return abi.Stream(abi.STREAM_DEVICE, 0, torch.cuda.current_stream(device).cuda_stream)


def on_device(batch, device):
    """The batch with all its tensors on `device`; any nesting of tuples, lists and dicts."""
    if device.type == "cpu":
        return batch
    return tree_map(lambda x: x.to(device, non_blocking=True) if isinstance(x, torch.Tensor) else x, batch)


def pinned(batch):
    return tree_map(lambda x: x.pin_memory() if isinstance(x, torch.Tensor) else x, batch)
