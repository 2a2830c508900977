"""Methods that nothing calls: misspelt ones, and those that other trainers call, with what there is in their place."""

import difflib
import types

from .task import Task

_DATA = "dataset(split), or sample_count(split) and batch(split, ids, epoch)"
_EVALUATE = "evaluate(batch), whose sums `metrics` makes figures of"
_OPTIMIZER = "the tables [optimizer] and [schedule] of the configuration, and describe_parameter() for single parameters; " \
             "losses() where each of several trains parameters of its own"
_STEP = "the run's loop, which no task replaces: loss(batch) returns a sum"
_NO_HOOKS = "nothing: there are no callbacks; self.step in loss() is the step, and the configuration has evaluations, checkpoints, patience " \
            "and logs"
_PREPARE = "prepare(), which one process calls at a time, and open_data()"
_SPLITS = ("train", "val", "validation", "eval", "test", "predict")

_ELSEWHERE = {
    **dict.fromkeys(("training_step", "train_step", "compute_loss", "forward", "__call__", "shared_step", "step_fn"), "loss(batch), which calls self.model"),
    **dict.fromkeys(("validation_step", "val_step", "eval_step", "test_step", "evaluation_step", "compute_metrics", "prediction_loop",
                     "evaluation_loop", "validate"), _EVALUATE),
    **dict.fromkeys(("predict_step", "prediction_step", "predict_batch"), "predict(batch) and `columns`"),
    **dict.fromkeys(("configure_optimizers", "create_optimizer", "create_scheduler", "create_optimizer_and_scheduler", "get_optimizer",
                     "optimizer", "optimizers", "scheduler", "lr_schedulers", "lr_scheduler_step", "learning_rate"), _OPTIMIZER),
    **dict.fromkeys(("optimizer_step", "optimizer_zero_grad", "manual_backward", "backward", "automatic_optimization", "clip_gradients",
                     "configure_gradient_clipping", "train_loop", "training_loop", "fit", "train"), _STEP),
    **dict.fromkeys((f"{split}_{what}" for split in _SPLITS for what in ("dataloader", "loader", "dataset", "data")), _DATA),
    **dict.fromkeys(("get_dataloader", "get_train_dataloader", "get_eval_dataloader", "get_test_dataloader", "dataloader", "get_dataset",
                     "load_dataset", "make_dataset", "datasets", "__len__", "__getitem__", "__iter__"), _DATA),
    **dict.fromkeys(("sampler", "get_sampler", "get_train_sampler", "sample_weights", "batch_sampler"),
                    "nothing: every epoch has every sample once, in an order that follows from the seed; to draw by weights let batch() map the "
                    "ids, with self.generator(name, epoch, id)"),
    **dict.fromkeys(("collate_fn", "data_collator"), "collate(samples)"),
    **dict.fromkeys(("setup", "prepare_data", "teardown", "download"), _PREPARE),
    **dict.fromkeys(("callbacks", "configure_callbacks", "add_callback"), _NO_HOOKS),
    **dict.fromkeys(("log_dict", "log_metrics", "logger"), "metric(name, total, weight) for a figure of the step, and log(line)"),
    **dict.fromkeys(("save_hyperparameters", "hparams", "args", "config"), "Options, a dataclass of the keys of [task]; the values are self.options"),
    **dict.fromkeys(("configure_model", "get_model", "model_init", "create_model", "make_model", "init_model"), "build_model()"),
    **dict.fromkeys(("configure_sharded_model", "configure_ddp", "wrap_model"), "layers(model), and the strategy of the configuration"),
    **dict.fromkeys(("save_pretrained", "save_model", "to_onnx", "to_torchscript"), "export(folder)"),
    **dict.fromkeys(("state_dict", "load_state_dict", "save_checkpoint", "load_checkpoint", "load_from_checkpoint"),
                    "extra_state() and set_extra_state(state); the run keeps the model's weights and buffers"),
}


def _counterpart(name):
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    return _NO_HOOKS if name.startswith(("on_", "before_", "after_")) or name.endswith(("_epoch_end", "_step_end", "_batch_end")) else None


def uncalled(task_class):
    """What to say of each method or field that this class has in vain."""
    known = [name for name in vars(Task) if not name.startswith("_")]
    fields = [field for each in task_class.__mro__ if issubclass(each, Task) and each is not Task for field in vars(each).items()]
    called = set().union(*(_names_in(value) for _, value in fields))
    if "getattr" in called:  # by whatever name, such as f"{split}_dataset"
        return
    for name in sorted({name for name, _ in fields} - set(known) - called):
        value = getattr(task_class, name)
        is_called = callable(value) and not isinstance(value, type)
        what = f"nothing {'calls' if is_called else 'reads'} {task_class.__name__}.{name}: "
        near, counterpart = difflib.get_close_matches(name, known, 1, 0.88), _counterpart(name)
        if counterpart:
            yield what + f"pipeline has in its place {counterpart}"
        elif near:
            yield what + f"did you mean {near[0]}?"


def _names_in(value):
    """The attributes and globals that a function, or what is made of one, such as a property, uses."""
    for function in ("fget", "__func__", "__wrapped__", "__code__"):
        if hasattr(value, function):
            return _names_in(getattr(value, function))
    if not isinstance(value, types.CodeType):
        return set()
    return set(value.co_names).union(*map(_names_in, value.co_consts))
