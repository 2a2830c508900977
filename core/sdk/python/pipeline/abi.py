"""The parts of pipeline.h that a task needs, as ctypes: every name here is explained there.

A test compares the layout of all structs with core/abi/layout.
"""

import ctypes
from ctypes import POINTER, Structure, c_double, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

ABI_MAJOR, ABI_MINOR = 1, 0

ERROR_FAILED, ERROR_CONFIG, ERROR_OUT_OF_MEMORY, ERROR_NO_SPACE = 1, 2, 3, 9
DEVICE_CPU, DEVICE_CUDA = 1, 2
STREAM_DEVICE = 1
OPTION_BOOL, OPTION_INT, OPTION_FLOAT, OPTION_STRING, OPTION_PATH = 1, 2, 3, 4, 5
OPTION_INT_LIST, OPTION_FLOAT_LIST, OPTION_STRING_LIST, OPTION_PATH_LIST = 6, 7, 8, 9
OPTION_REQUIRED, OPTION_HAS_MINIMUM, OPTION_HAS_MAXIMUM = 1, 2, 4
OPTION_ABOVE_MINIMUM, OPTION_BELOW_MAXIMUM, OPTION_MAY_CHANGE = 8, 16, 32
PURPOSES = {1: "train", 2: "evaluate", 3: "predict", 4: "export", 5: "validate"}
RUN_REPRODUCIBLE, RUN_ACTIVATION_CHECKPOINTING, RUN_PIN_MEMORY = 1, 2, 4
LOG_LEVELS = {"debug": 1, "info": 2, "warning": 3, "error": 4}
PARAMETER_TRAINABLE, PARAMETER_DECAY, PARAMETER_HIDDEN_MATRIX = 1, 2, 16
PASS_FORWARD, PASS_BACKWARD = 1, 2
SPLITS = ("train", "val", "test")
AGGREGATES = {"mean": 1, "sum": 2, "exp_mean": 3}
BETTER = {"lower": 1, "higher": 2}
PLUGIN_TASK = 1


class Str(Structure):
    _fields_ = [("ptr", c_void_p), ("len", ctypes.c_size_t)]

    def text(self):
        return ctypes.string_at(self.ptr, self.len).decode() if self.len else ""


class Device(Structure):
    _fields_ = [("type", c_int32), ("id", c_int32)]


class Dtype(Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class Stream(Structure):
    _fields_ = [("kind", c_uint32), ("reserved", c_uint32), ("handle", c_void_p)]


class Tensor(Structure):  # DLPack's DLTensor
    _fields_ = [("data", c_void_p), ("device", Device), ("ndim", c_int32), ("dtype", Dtype),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class Number(Structure):
    _fields_ = [("name", Str), ("value", c_double)]


class Sized(Structure):
    """Begins with struct_size, the number of bytes that its sender knows."""

    @classmethod
    def new(cls, **fields):
        return cls(ctypes.sizeof(cls), **fields)

    @classmethod
    def received(cls, address):
        """A copy of what is at `address`; what the sender does not know is zero."""
        size = c_uint32.from_address(address).value
        copy = cls()
        ctypes.memmove(ctypes.byref(copy), address, min(size, ctypes.sizeof(cls)))
        return copy

    @classmethod
    def received_args(cls, address):
        """The same of options, of which none may be ignored."""
        size, known = c_uint32.from_address(address).value, ctypes.sizeof(cls)
        args = cls.received(address)
        if getattr(args, "reserved", 0) or (size > known and any(ctypes.string_at(address + known, size - known))):
            raise ValueError(f"{cls.__name__} sets an option that this package does not know: both must be of one version")
        return args

    def fill(self, address):
        """Writes this to the caller's struct at `address`, as much of it as the caller knows."""
        size = c_uint32.from_address(address).value
        body = min(size, ctypes.sizeof(self)) - 4
        ctypes.memmove(address + 4, ctypes.addressof(self) + 4, body)


def _sized(title, /, **fields):
    """A class of structs that begin with struct_size and have these fields behind it."""
    return type(title, (Sized,), {"_fields_": [("struct_size", c_uint32), *fields.items()]})


def _function(result, *arguments):
    return ctypes.CFUNCTYPE(result, *arguments)


ERROR = c_void_p  # pl_error*, NULL: success
Option = _sized("Option", type=c_uint32, flags=c_uint32, choice_count=c_uint32, key=Str, default_value=Str, unit=Str, help=Str,
                choices=POINTER(Str), minimum=c_double, maximum=c_double)
RunInfo = _sized("RunInfo", purpose=c_uint32, flags=c_uint32, threads=c_uint32, loader_processes=c_uint32, rank=c_int32, world_size=c_int32,
                 local_rank=c_int32, local_world_size=c_int32, reserved=c_uint32, device=Device, stream=Stream, parameter_dtype=Dtype,
                 compute_dtype=Dtype, seed=c_uint64, global_batch=c_uint64, micro_batch=c_uint64, micro_batches=c_uint64, run_dir=Str,
                 cache_dir=Str)
Host = _sized("Host", abi_major=c_uint32, abi_minor=c_uint32, reserved=c_uint32, error_new=_function(c_void_p, c_uint32, Str),
              error_code=_function(c_uint32, c_void_p), error_message=_function(Str, c_void_p), error_free=_function(None, c_void_p),
              log=_function(None, c_void_p, c_uint32, Str), metric=_function(None, c_void_p, Str, c_double, c_double),
              metric_tensor=_function(None, c_void_p, Str, POINTER(Tensor), c_double),
              progress=_function(None, c_void_p, Str, c_uint64, c_uint64), cancelled=_function(c_uint32, c_void_p),
              run_info=_function(c_void_p, c_void_p), seed=_function(c_uint64, c_void_p, Str, c_uint64, c_uint64, c_uint64),
              exchange=c_void_p, store_set=c_void_p, store_get=c_void_p, config_bool=_function(ERROR, c_void_p, Str, POINTER(c_uint32)),
              config_int=_function(ERROR, c_void_p, Str, POINTER(c_int64)), config_float=_function(ERROR, c_void_p, Str, POINTER(c_double)),
              config_string=_function(ERROR, c_void_p, Str, POINTER(Str)),
              config_int_list=_function(ERROR, c_void_p, Str, POINTER(POINTER(c_int64)), POINTER(c_uint64)),
              config_float_list=_function(ERROR, c_void_p, Str, POINTER(POINTER(c_double)), POINTER(c_uint64)),
              config_string_list=_function(ERROR, c_void_p, Str, POINTER(POINTER(Str)), POINTER(c_uint64)),
              config_is_set=_function(c_uint32, c_void_p, Str), config_error=_function(ERROR, c_void_p, Str, Str), group_open=c_void_p)
Parameter = _sized("Parameter", flags=c_uint32, ndim=c_uint32, unit=c_uint32, shape=POINTER(c_int64), name=Str, lr_multiplier=c_double,
                   optimizer=c_uint32, forms=c_uint32, form=c_uint32, loss=c_uint32, form_bytes=c_uint64)
Loss = _sized("Loss", reserved=c_uint32, name=Str, first=c_uint64, every=c_uint64, options=POINTER(Number), option_count=c_uint64)


RELEASE = _function(None, c_void_p)
Gradient = _sized("Gradient", flags=c_uint32, index=c_uint64, tensor=POINTER(Tensor), stream=Stream, owner=c_void_p, release=RELEASE,
                  rows=POINTER(Tensor))
GradientSink = _sized("GradientSink", flags=c_uint32, user=c_void_p, ready=_function(ERROR, c_void_p, c_void_p))  # pl_gradient*
UnitHooks = _sized("UnitHooks", reserved=c_uint32, user=c_void_p, enter=_function(ERROR, c_void_p, c_uint32, c_uint32),
                   leave=_function(ERROR, c_void_p, c_uint32, c_uint32))
LoadArgs = _sized("LoadArgs", split=c_uint32, purpose=c_uint32, reserved=c_uint32, ids=POINTER(c_uint64), count=c_uint64, epoch=c_uint64)
BatchInfo = _sized("BatchInfo", flags=c_uint32, weight=c_double, samples=c_uint64, tokens=c_uint64, positions=c_uint64)
TrainArgs = _sized("TrainArgs", reserved=c_uint32, scale=c_double, seed=c_uint64, step=c_uint64, micro_batch=c_uint64, gradients=c_void_p,
                   outputs=POINTER(Tensor), first_row=c_uint64, idle_losses=c_uint64)
EvaluateArgs = _sized("EvaluateArgs", purpose=c_uint32, samples_to_show=c_uint64)
EvaluationSink = _sized("EvaluationSink", reserved=c_uint32, user=c_void_p, value=_function(ERROR, c_void_p, Str, Str, c_double, c_double),
                        record=_function(ERROR, c_void_p, c_uint64, Str, ctypes.c_char_p, c_uint64),
                        sample=_function(ERROR, c_void_p, c_uint64, Str))
PredictionSink = _sized("PredictionSink", reserved=c_uint32, user=c_void_p,
                        row=_function(ERROR, c_void_p, c_uint64, POINTER(Str), c_uint64),
                        file=_function(ERROR, c_void_p, c_uint64, Str, ctypes.c_char_p, c_uint64),
                        append=_function(ERROR, c_void_p, c_uint64, Str, ctypes.c_char_p, c_uint64))
Metric = _sized("Metric", aggregate=c_uint32, better=c_uint32, reserved=c_uint32, name=Str, source=Str, help=Str)
Value = _sized("Value", reserved=c_uint32, group=Str, name=Str, sum=c_double, weight=c_double)
Record = _sized("Record", reserved=c_uint32, sample_id=c_uint64, key=Str, bytes=c_void_p, size=c_uint64)
ReportArgs = _sized("ReportArgs", split=c_uint32, purpose=c_uint32, reserved=c_uint32, values=POINTER(Value), value_count=c_uint64,
                    records=POINTER(Record), record_count=c_uint64)
ReportSink = _sized("ReportSink", reserved=c_uint32, user=c_void_p, figure=_function(ERROR, c_void_p, Str, c_double, c_uint32),
                    text=_function(ERROR, c_void_p, Str), file=_function(ERROR, c_void_p, Str, c_void_p, c_uint64))


# What a slot returns and takes; all begin with the task, create with the host.
SLOTS = {
    "create": _function(ERROR, c_void_p, c_void_p, c_void_p, POINTER(c_void_p)),
    "destroy": _function(None, c_void_p),
    "model_options": c_void_p,
    "prepare": _function(ERROR, c_void_p),
    "extra_state": _function(ERROR, c_void_p, POINTER(c_void_p), POINTER(c_uint64)),
    "set_extra_state": _function(ERROR, c_void_p, c_void_p, c_uint64),
    "open": _function(ERROR, c_void_p),
    "sample_count": _function(ERROR, c_void_p, c_uint32, POINTER(c_uint64)),
    "sample_costs": _function(ERROR, c_void_p, c_uint32, POINTER(c_uint64), c_uint64, POINTER(c_double)),
    "data_fingerprint": c_void_p,  # returns a struct, which a callback of ctypes cannot: see Embedding
    "load": _function(ERROR, c_void_p, c_void_p, POINTER(c_void_p)),
    "batch_info": _function(ERROR, c_void_p, c_void_p, c_void_p),
    "batch_free": _function(None, c_void_p, c_void_p),
    "parameter_count": _function(c_uint64, c_void_p),
    "parameter": _function(ERROR, c_void_p, c_uint64, c_void_p),
    "initialize": _function(ERROR, c_void_p, c_uint64, POINTER(Tensor)),
    "form_bytes": _function(ERROR, c_void_p, c_uint64, c_uint32, POINTER(c_uint64)),
    "encode_value": _function(ERROR, c_void_p, c_uint64, c_uint32, POINTER(Tensor), c_void_p),
    "import_model": _function(ERROR, c_void_p, Str),
    "bind": _function(ERROR, c_void_p, c_uint64, POINTER(Tensor), POINTER(Tensor)),
    "set_unit_hooks": _function(ERROR, c_void_p, c_void_p),
    "train": _function(ERROR, c_void_p, c_void_p, c_void_p, POINTER(Tensor)),
    "evaluate": _function(ERROR, c_void_p, c_void_p, c_void_p, c_void_p),
    "metric_count": _function(c_uint64, c_void_p),
    "metric": _function(ERROR, c_void_p, c_uint64, c_void_p),
    "report": _function(ERROR, c_void_p, c_void_p, c_void_p),
    "prediction_columns": _function(ERROR, c_void_p, POINTER(POINTER(Str)), POINTER(c_uint64)),
    "sample_name": _function(ERROR, c_void_p, c_uint32, c_uint64, POINTER(Str)),
    "predict": _function(ERROR, c_void_p, c_void_p, c_void_p, c_void_p),
    "finish_predictions": c_void_p,
    "reply": c_void_p,
    "flops": _function(c_double, c_void_p, c_void_p),
    "export_model": _function(ERROR, c_void_p, Str),
    "loss_count": _function(c_uint64, c_void_p),
    "loss": _function(ERROR, c_void_p, c_uint64, c_void_p),
}
TaskApi = _sized("TaskApi", reserved=c_uint32, **SLOTS)
Plugin = _sized("Plugin", abi_major=c_uint32, abi_minor=c_uint32, kind=c_uint32, name=Str, version=Str, summary=Str, runtime=Str,
                options=POINTER(Option), option_count=c_uint64, api=c_void_p, query=c_void_p, shutdown=c_void_p)


ENTRY = _function(c_void_p, c_void_p, POINTER(c_void_p))
FINGERPRINT = _function(None, c_void_p, POINTER(Str))


class Embedding(Structure):  # core/cli/embedding.h
    _fields_ = [("prefix", ctypes.c_char_p), ("command", POINTER(ctypes.c_char_p)), ("entry", ENTRY),
                ("file", ctypes.c_char_p), ("stacks_signal", ctypes.c_int), ("stacks_file", ctypes.c_int), ("is_shared", ctypes.c_int), ("data_fingerprint", FINGERPRINT)]


def string(text):
    """A Str for one call, which keeps its bytes; one that is stored comes from Strings."""
    data = text.encode()
    result = Str(ctypes.cast(ctypes.c_char_p(data), c_void_p), len(data))
    result.kept = data
    return result


class Strings:
    """Texts that the other side of the ABI borrows for as long as this object lives."""

    def __init__(self):
        self._kept = {}

    def __call__(self, text):
        if text not in self._kept:
            self._kept[text] = string(text)
        return self._kept[text]

    def array(self, texts):
        return (Str * len(texts))(*(self(text) for text in texts))
