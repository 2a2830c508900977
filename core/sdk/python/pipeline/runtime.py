"""A run's settings in torch, process-wide, and which torch it is."""

import contextlib
import os
import sys
import warnings
from functools import partial

import torch

from . import abi
from .tensors import device_of

_INDUCTOR_IS_DETERMINISTIC = "TORCHINDUCTOR_DETERMINISTIC"


def torch_tag():
    """The build of torch, as plugins in C++ name theirs: two builds cannot be in one process."""
    version = torch.__version__
    if "+" not in version:
        version += "+cu" + torch.version.cuda.replace(".", "") if torch.version.cuda else "+cpu"
    return f"torch {version} {'cxx11-abi' if torch._C._GLIBCXX_USE_CXX11_ABI else 'old-cxx-abi'}"


def open_device(run):
    """Makes the run's device and stream current in this thread, the main one."""
    device = device_of(run.device)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        if run.stream.kind == abi.STREAM_DEVICE:
            torch.cuda.set_stream(torch.cuda.ExternalStream(run.stream.handle, device))
    return device


def _use_deterministic_algorithms(mode, warn_only=False):
    """torch.use_deterministic_algorithms(), which imports torch._inductor to tell it: a second of each process. Where nothing has imported
    it, the environment tells it, if anything does."""
    if "torch._inductor.config" in sys.modules:
        torch.use_deterministic_algorithms(mode, warn_only=warn_only)
    else:
        torch._C._set_deterministic_algorithms(mode, warn_only=warn_only)
        if mode:
            _tell_inductor("1")


def _tell_inductor(value):
    if value is None:
        os.environ.pop(_INDUCTOR_IS_DETERMINISTIC, None)
    else:
        os.environ[_INDUCTOR_IS_DETERMINISTIC] = value


def apply_run_settings(threads, reproducible):
    """The same as for tasks in C++: core/sdk/include/pipeline/torch/runtime.hpp says why."""
    if threads:
        torch.set_num_threads(threads)
        if torch.get_num_interop_threads() != 1:
            try:
                torch.set_num_interop_threads(1)
            except RuntimeError:  # can be set once, and a plugin has
                pass
    _use_deterministic_algorithms(reproducible)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.deterministic = reproducible
    torch.backends.cudnn.benchmark = not reproducible
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.sin(torch.zeros(16))


def current_folder():
    """None: it is gone."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def _go_back(folder):
    with contextlib.suppress(OSError, TypeError):  # it is gone
        os.chdir(folder)


@contextlib.contextmanager
def kept_settings():
    """What a run, and the code of its task, may change for the whole process is the caller's again, in a notebook. Not the number of
    inter-op threads, which torch lets nobody set twice."""
    matmul, cudnn, cuda = torch.backends.cuda.matmul, torch.backends.cudnn, torch.cuda
    fields = ((torch.utils.deterministic, "fill_uninitialized_memory"), (cudnn, "deterministic"), (cudnn, "benchmark"), (cudnn, "enabled"),
              (matmul, "allow_bf16_reduced_precision_reduction"), (matmul, "allow_fp16_reduced_precision_reduction"))
    functions = [(partial(getattr, *field), partial(setattr, *field)) for field in fields]
    functions += [(torch.get_num_threads, torch.set_num_threads), (torch.get_default_dtype, torch.set_default_dtype), (current_folder, _go_back),
                  (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
                  (torch.backends.cuda.cudnn_sdp_enabled, torch.backends.cuda.enable_cudnn_sdp),
                  (torch.get_deterministic_debug_mode, lambda mode: _use_deterministic_algorithms(mode > 0, warn_only=mode == 1)),
                  (lambda: os.environ.get(_INDUCTOR_IS_DETERMINISTIC), _tell_inductor)]
    before = [take() for take, _ in functions]
    generator = torch.get_rng_state()
    on_device = (cuda.current_device(), cuda.current_stream(), cuda.get_rng_state_all()) if cuda.is_initialized() else None
    with warnings.catch_warnings(), torch.inference_mode(False), torch.enable_grad():
        try:
            yield
        finally:
            for value, (take, give) in zip(before, functions):
                if take() != value:
                    give(value)
            torch.set_rng_state(generator)
            if on_device:
                cuda.set_device(on_device[0])
                cuda.set_stream(on_device[1])
                cuda.set_rng_state_all(on_device[2])
            elif cuda.is_initialized():
                cuda.set_stream(cuda.default_stream())  # the run's is gone


def seed(number, device):
    """torch.manual_seed() for the devices of this run; that one notes a traceback for each kind of device."""
    torch.default_generator.manual_seed(number)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(number)


def is_narrow(dtype):
    return dtype in (torch.bfloat16, torch.float16)


def autocast_of(device, compute):
    """() -> a context in which matrix products run in `compute`."""
    narrow = is_narrow(compute)
    return lambda: torch.autocast(device.type, dtype=compute if narrow else torch.bfloat16, enabled=narrow)


def widen_norms(model):
    """BatchNorm and its like take weights in the dtype of their running statistics alone, float32; autocast leaves them as they are."""
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._NormBase):
            module.forward = _with_wide_weights(module, module.forward)


def _with_wide_weights(module, forward):
    def run(*inputs):
        kept = dict(module._parameters)
        module._parameters.update({name: value.float() for name, value in kept.items() if value is not None})
        try:
            return forward(*inputs)
        finally:
            module._parameters.update(kept)
    return run


def cell(value):
    """A value of a prediction's row as text."""
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    return value if isinstance(value, str) else str(value)
