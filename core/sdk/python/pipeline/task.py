"""The class that a user derives from."""

import math

import torch
from torch.utils.data import default_collate

from .host import TaskError


class Metric:
    """How a value of `evaluate` becomes a figure.

    aggregate: "mean" (sum / weight), "sum" or "exp_mean" (exp(sum / weight), as perplexity is).
    better: "lower" or "higher". source: the value it is computed from; default: the one of its own name.
    """

    def __init__(self, help="", better="lower", aggregate="mean", source=""):
        self.help, self.better, self.aggregate, self.source = help, better, aggregate, source


class Loss:
    """One of several losses, as losses() of a task returns them.

    function: computes it of a batch, as loss(batch) does. parameters: the names of what it trains, or of the modules that have
    it, as in "critic" or ["actor.body", "actor.head.weight"]. It has a turn in the steps first, first + every, first + 2 every
    and so on, which count from 1; first is `every` unless given. lr_multiplier: of the learning rate. What else is given are
    options of the optimizer in place of those in [optimizer], as in beta1=0.5, weight_decay=0.
    """

    def __init__(self, function, parameters, every=1, first=None, lr_multiplier=1.0, **options):
        self.function, self.every, self.first = function, every, every if first is None else first
        self.parameters = (parameters,) if isinstance(parameters, str) else tuple(parameters)
        self.lr_multiplier, self.options = lr_multiplier, options
        if not callable(function):
            raise TypeError(f"Loss({function!r}): must be given a function that computes it of a batch")
        for name in ("every", "first"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"Loss({name}={value!r}): must be a whole number of at least 1")
        for name, value in {"lr_multiplier": lr_multiplier, **options}.items():
            if not isinstance(value, (int, float)) or not math.isfinite(value) or name == "lr_multiplier" and value <= 0:
                raise ValueError(f"Loss({name}={value!r}): must be a finite number{', above 0' if name == 'lr_multiplier' else ''}")


class Task:
    """Data, model and loss of a run. The smallest complete one:

        class Sine(pipeline.Task):
            def sample_count(self, split):
                return {"train": 2000, "val": 200}.get(split, 0)

            def batch(self, split, ids, epoch):
                x = torch.stack([torch.rand(1, generator=self.generator("x", i)) for i in ids])
                return x, torch.sin(x)

            def build_model(self):
                return torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))

            def loss(self, batch):
                x, y = batch
                return (self.model(x) - y).square().sum()

    `split` is "train", "val" or "test"; `ids` a list of sample numbers below sample_count(split). A batch is any nesting
    of tuples, lists and dicts with tensors in it; all methods but `batch`, `weight`, `tokens` and `positions` get it on
    the run's device.
    """

    Options = None  # a dataclass: the keys of [task]; its values are self.options
    metrics = {}  # name: Metric, of the values that evaluate() returns besides the loss
    columns = ()  # of the table that `pipeline predict` writes, after the id
    version = "1.0.0"

    # What a task is given: before open_data() `options`, before the first batch all of it.
    options = None
    model = None
    device = torch.device("cpu")
    training = True  # False in an evaluation or a prediction
    step = 0  # in loss(): the optimizer step, from 1, as in metrics.jsonl; elsewhere: how many have made the weights

    # ------------------------------------------------------------------------------------------------ data

    def prepare(self):
        """Downloads, converts, tokenizes, unless that is done. One process at a time; the others wait."""

    def open_data(self):
        """Opens what `batch` reads from."""

    def data_fingerprint(self):
        """A text that changes when the data does: a continued run refuses other data."""
        raise NotImplementedError

    def costs(self, split, ids):
        """The relative cost of each sample, such as its tokens, for batches of similar ones."""
        raise NotImplementedError

    def dataset(self, split):
        """A map-style torch.utils.data.Dataset, in place of sample_count() and batch(); None: no such split.

        Samples depend on their index alone; what is random in one takes self.generator(...).
        """
        raise TaskError(f"{type(self).__name__} needs sample_count() and batch(), or dataset()")

    def collate(self, samples):
        """Makes a batch of a list of samples of the dataset."""
        try:
            return default_collate(samples)
        except (TypeError, RuntimeError) as error:
            raise TaskError(f"default_collate() makes no batch of these samples: {error}; write collate()") from error

    def sample_count(self, split):
        """Samples of the split; 0: there is none."""
        dataset = self._dataset(split)
        return 0 if dataset is None else len(dataset)

    def batch(self, split, ids, epoch):
        """Reads samples, on the CPU. Called ahead of time by several threads.

        What is random must come from self.generator(...), so that a sample depends on the run's seed, its id and the
        epoch alone.
        """
        dataset = self._dataset(split)
        return self.collate([dataset[i] for i in ids])

    def weight(self, batch, samples):
        """What the loss is divided by, such as the number of target tokens. Default: the number of samples."""
        return samples

    def tokens(self, batch):
        """Useful positions of the batch, for tokens/s; 0: not applicable."""
        return 0

    def positions(self, batch):
        """Positions of the batch with padding."""
        return self.tokens(batch)

    # ----------------------------------------------------------------------------------------------- model

    def build_model(self):
        """A new torch.nn.Module, on the CPU. torch's default generator is seeded."""
        raise TaskError(f"{type(self).__name__} needs build_model()")

    def layers(self, model):
        """The modules that a strategy may hold one at a time, and whose activations may be recomputed, in the order in
        which every batch goes through them. Default: the longest ModuleList."""
        lists = [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]
        return list(max(lists, key=len)) if lists else []

    def eval_modules(self, model):
        """The modules that are in eval() throughout training, with all that is in them, such as a BatchNorm whose running
        statistics are kept. Default: parts that build_model() left in eval() and in which nothing is trained."""
        return []

    def describe_parameter(self, parameter):
        """May change `decay`, `trainable`, `lr_multiplier` and `hidden_matrix` of a pipeline.Parameter."""

    def extra_state(self):
        """Bytes that the parameters are meaningless without, such as a vocabulary made from the data. Every checkpoint has
        them. What training changes in a model's buffers is saved anyway."""
        return b""

    def set_extra_state(self, state):
        """Takes them back, before prepare() and open_data()."""

    def loss(self, batch):
        """The sum of the losses of the batch: a scalar in float32 or float64. It is divided by the sum of all weights
        of the step, on all processes."""
        raise TaskError(f"{type(self).__name__} needs loss() or losses()")

    def losses(self):
        """Several losses in place of loss(): {name: pipeline.Loss(...)}. Each trained parameter belongs to one, and follows its
        gradient alone, even where another runs through it. Called before all else: it has the options, and no model."""
        return {}

    # --------------------------------------------------------------------------------- evaluation, prediction

    def evaluate(self, batch):
        """Values besides the loss: {name: sum}, over weight(batch), or {name: (sum, weight)}. `metrics` makes figures of
        them. A tensor with one row for each sample, (B, ...), is a record: report() gets those of all samples."""
        return {}

    def report(self, values, records):
        """Figures that are no means, such as an area under a curve: {name: value}, or {name: (value, "higher")}.

        values: {name: (sum, weight)} of the whole evaluation. records: {name: tensor of (N, ...)} in sample order; {}
        where several evaluations are pooled. Called on every process, and in an object that was not opened.
        """
        return {}

    def show(self, batch):
        """Lines of text for each sample of the batch, for the first few of an evaluation in the log."""
        raise NotImplementedError

    def predict(self, batch):
        """A sequence with one row of self.columns for each sample of the batch, in order."""
        raise TaskError(f"{type(self).__name__} needs predict()")

    def sample_name(self, split, id):
        """A sample's name in tables."""
        return str(id)

    def export(self, folder):
        """Writes the trained model for other tools: `pipeline export`. Default: model.pt, its state_dict."""
        torch.save(self.model.state_dict(), folder / "model.pt")

    # ----------------------------------------------------------------------------------- given to every task

    def seed(self, name, *numbers):
        """A seed that depends on the run's seed, the name and up to three numbers, and on nothing else."""
        return self._context.seed(name, *numbers)

    def generator(self, name, *numbers):
        """A torch.Generator with that seed."""
        return torch.Generator().manual_seed(self.seed(name, *numbers))

    def log(self, line, level="info"):
        """level: "debug", "info", "warning" or "error"."""
        self._context.log(level, line)

    def metric(self, name, total, weight=1.0):
        """A figure of this training step, in metrics.jsonl: the sum of `total` over the sum of `weight`. A tensor, a
        scalar on the run's device, is read one step later, so that nothing waits for the device."""
        self._context.metric(name, total, weight)

    # ------------------------------------------------------------------------------------------- of this package

    _context = None

    def _dataset(self, split):
        if not hasattr(self, "_datasets"):
            self._datasets = {}
        if split not in self._datasets:
            dataset = self.dataset(split)
            if dataset is not None and not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
                raise TaskError(f"dataset({split!r}) returned {type(dataset).__name__}, must return a map-style dataset, with a length "
                                "and samples by number, or None")
            self._datasets[split] = dataset
        return self._datasets[split]
