"""Several losses in one task: the numbers of a loop with an optimizer for each, under every strategy, and after a kill."""
import json
import re
import struct

import job

# A task, and as a program the differences of exported weights from those of a loop with two optimizers. The critic's loss runs
# through the generator, and is not detached; gradients are clipped.
GAN = """
import os, pathlib, signal, sys
from dataclasses import dataclass
import torch
from torch import nn
from torch.nn.functional import softplus

def data():
    random = torch.Generator().manual_seed(1)
    return torch.randn(48, 2, generator=random), torch.randn(48, 3, generator=random)

def network(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, outputs))

def make_model():
    torch.manual_seed(2)
    return nn.ModuleDict({"generator": network(3, 2), "critic": network(2, 1)})

def critic_loss(model, points, noise):
    return (softplus(-model["critic"](points).float()) + softplus(model["critic"](model["generator"](noise)).float())).sum()

def generator_loss(model, points, noise):
    return softplus(-model["critic"](model["generator"](noise)).float()).sum()

if __name__ == "__main__":
    model = make_model()
    parts = {name: list(model[name].parameters()) for name in ("critic", "generator")}
    groups = {name: [{"params": [p for p in part if p.dim() == 2], "weight_decay": 0.1}, {"params": [p for p in part if p.dim() < 2], "weight_decay": 0}]
              for name, part in parts.items()}
    optimizers = {"critic": torch.optim.AdamW(groups["critic"], lr=4e-2, betas=(0.5, 0.9)), "generator": torch.optim.AdamW(groups["generator"], lr=1e-2)}
    for step in range(1, 7):
        batch = [each[8 * step - 8:8 * step] for each in data()]
        losses = {"critic": critic_loss} if step % 2 else {"critic": critic_loss, "generator": generator_loss}
        gradients = {name: torch.autograd.grad(loss(model, *batch) / 8, parts[name]) for name, loss in losses.items()}
        for name in losses:
            for parameter, parameter.grad in zip(parts[name], gradients[name]):
                pass
            nn.utils.clip_grad_norm_(parts[name], 0.05)
            optimizers[name].step()
    theirs = model.state_dict()
    for folder in sys.argv[1:]:
        ours = torch.load(folder + "/model.pt")
        assert ours.keys() == theirs.keys()
        print(max((ours[name] - theirs[name]).abs().max().item() for name in ours))
else:
    import pipeline

    class Gan(pipeline.Task):
        @dataclass
        class Options:
            samples: int = 48
        def dataset(self, split):
            return torch.utils.data.TensorDataset(*(each[:self.options.samples] for each in data()))
        def build_model(self):
            return make_model()
        def layers(self, model):
            return [layer for part in model.values() for layer in part if isinstance(layer, nn.Linear)]
        def losses(self):
            return {"critic": pipeline.Loss(lambda batch: critic_loss(self.model, *batch), "critic", lr_multiplier=4.0, beta1=0.5, beta2=0.9),
                    "generator": pipeline.Loss(self.generator_loss, parameters=["generator."], every=2)}
        def generator_loss(self, batch):
            if self.step == 6 and pathlib.Path("kill").exists():
                pathlib.Path("kill").unlink()
                os.kill(os.getpid(), signal.SIGKILL)
            return generator_loss(self.model, *batch)
"""
SETS = dict(schedule__kind="constant", loader__shuffle="false", optimizer__weight_decay=0.1, train__clip_grad_norm=0.05, train__max_steps=6)
TWO = dict(launch__processes=2, strategy__plugin="sharded")


class LossesTest(job.Job):
    def train(self, run, code=0, **sets):
        (self.folder / "gan.py").write_text(GAN)
        self.configure("gan.py")
        return self.pipeline("run", "train.toml", code=code, run__dir=run, **{**SETS, **sets})

    def lines(self, run):
        """What each step says of its gradients, with all losses."""
        lines = map(json.loads, (self.folder / run / "metrics.jsonl").read_text().splitlines())
        return [{key: line.get(key) for key in ("step", "loss", "critic", "generator", "grad_norm")} for line in lines if "loss" in line]

    def tensors(self, run, step):
        """{kind and parameter: bytes} of a checkpoint, put together from what the processes wrote."""
        whole = {}
        for file in sorted((self.folder / run / f"checkpoints/step-{step:08}").glob("*.safetensors")):
            data = file.read_bytes()
            size, = struct.unpack("<Q", data[:8])
            for name, facts in json.loads(data[8:8 + size]).items():
                if name != "__metadata__":
                    begin, end = facts["data_offsets"]
                    whole[name] = whole.get(name, b"") + data[8 + size + begin:8 + size + end]
        return whole

    def test_are_those_of_a_loop_with_two_optimizers(self):
        for name, sets in {"halves": dict(train__micro_batch=4), "two": TWO}.items():
            self.train(name, **sets)
            self.pipeline("export", name, "--checkpoint", "last", "--output", f"{name}.out")
        differences = self.run_words(job.PYTHON, "gan.py", "halves.out", "two.out").split()
        self.assertEqual(len(differences), 2)
        for difference in differences:
            self.assertLessEqual(float(difference), 1e-6)

    def test_have_the_same_bits_under_every_strategy(self):
        self.train("alone")
        for name, sets in {"ddp": dict(TWO, strategy__plugin="ddp"), "stage 2": TWO, "stage 3": dict(TWO, strategy__zero_stage=3)}.items():
            with self.subTest(name):
                self.train(name, **sets)
                self.assertEqual(self.lines("alone"), self.lines(name))
                self.assertEqual(self.tensors("alone", 6), self.tensors(name, 6))

    def test_a_process_without_samples_goes_the_way_of_the_others(self):
        sets = dict(task__samples=36, train__micro_batch=4, train__max_steps=10)  # steps 5 and 10 have one micro-batch
        self.train("alone", **sets)
        self.train("two", **TWO, strategy__zero_stage=3, **sets)
        self.assertEqual(self.lines("alone"), self.lines("two"))

    def test_are_close_where_gradients_travel_during_the_backward_pass(self):
        self.train("alone")
        for name, sets in {"ddp": dict(TWO, strategy__plugin="ddp"), "stage 2": TWO, "stage 3": dict(TWO, strategy__zero_stage=3)}.items():
            with self.subTest(name):
                self.train(name, run__reproducible="false", **sets)
                for ours, others in zip(self.lines("alone"), self.lines(name), strict=True):
                    for key, value in ours.items():
                        self.assertAlmostEqual(value or 0, others[key] or 0, delta=1e-5, msg=key)

    def test_leave_all_as_it_is_in_steps_without_a_turn(self):
        for name, sets in {"adamw": {}, "sgd": dict(optimizer__kind="sgd", optimizer__momentum=0.9), "muon": dict(TWO, strategy__zero_stage=3, optimizer__kind="muon")}.items():
            with self.subTest(name):
                lines = GAN.replace(", beta1=0.5, beta2=0.9", "") if name == "sgd" else GAN
                (self.folder / "mine.py").write_text(lines)
                self.configure("mine.py")
                self.pipeline("run", "train.toml", run__dir=name, checkpoint__every=1, checkpoint__keep=6, optimizer__ema_decay=0.5, **SETS, **sets)
                before, after = self.tensors(name, 4), self.tensors(name, 5)
                self.assertEqual(struct.unpack("<2q", after["step"]), (5, 2))
                for key, value in before.items():
                    if key != "step":
                        self.assertEqual(value == after[key], "/generator." in key, key)
                self.assertTrue(any(key.startswith("ema/generator") for key in before))

    def test_have_the_same_bits_after_a_kill(self):
        self.train("whole", checkpoint__every=3)
        (self.folder / "kill").touch()
        self.train("killed", code=-9, checkpoint__every=3)
        self.assertFalse((self.folder / "kill").exists())
        self.pipeline("run", "killed")
        self.assertEqual(self.lines("whole"), self.lines("killed"))
        self.assertEqual(self.tensors("whole", 6), self.tensors("killed", 6))

    def test_an_average_that_has_not_begun_is_the_weights(self):
        (self.folder / "late.py").write_text(GAN.replace("every=2)", "first=1000, every=1)"))
        self.configure("late.py")
        self.pipeline("run", "train.toml", run__dir="late", optimizer__ema_decay=0.5, **SETS)
        tensors = self.tensors("late", 6)
        begun = {key.partition("/")[2]: value == tensors["value/" + key.partition("/")[2]] for key, value in tensors.items() if key.startswith("ema/")}
        self.assertGreater(len(begun), 4)
        for parameter, is_value in begun.items():
            self.assertEqual(is_value, parameter.startswith("generator."), parameter)

    def test_keep_their_places_in_a_run(self):
        self.train("run")
        first, second = GAN.index('"critic": pipeline.Loss'), GAN.index('"generator": pipeline.Loss')
        end = GAN.index("}", second)
        swapped = GAN[:first] + GAN[second:end] + ",\n                    " + GAN[first:second].rstrip(" ,\n") + GAN[end:]
        (self.folder / "gan.py").write_text(swapped)
        self.assertIn("the losses are not those that this run began with", self.pipeline("run", "run", "--change", "train.max_steps=8", code=2))

    def test_are_figures_by_name(self):
        self.assertRegex(self.train("run"), r"step 6/6  loss \S+  critic \S+  generator \S+  lr ")
        for line in self.lines("run"):
            self.assertEqual(line["generator"] is None, line["step"] % 2 == 1)
            self.assertAlmostEqual(line["loss"], line["critic"] + (line["generator"] or 0), places=6)
        figures = json.loads((self.folder / "run/eval.jsonl").read_text().splitlines()[-1])
        self.assertAlmostEqual(figures["loss"], figures["critic"] + figures["generator"], places=6)

    def test_keep_what_a_task_promises(self):
        (self.folder / "gan.py").write_text(GAN)
        self.assertIn("ok   gradients are those of the loss", self.run_words(job.PIPELINE, "check-plugin", "gan.py"))

    def test_are_refused_where_they_cannot_be(self):
        self.assertRegex(self.train("other", code=2, strategy__plugin="diloco"), "error: strategy diloco: updates all parameters in every step, "
                         "and the task has 2 losses")
        self.assertIn("error: find-lr needs a loss that is the same sum in every step", self.pipeline("find-lr", "train.toml", code=2))

    def test_name_what_is_wrong(self):
        begin = "\n    loss = pipeline.Task.loss\n    def build_model(self): return nn.ModuleDict({'a': nn.Linear(4, 1), 'b': nn.Linear(4, 1)})\n" \
                "    def a(self, batch): return self.model['a'](batch).sum()\n"
        returns = begin + "    def losses(self): return "
        cases = {
            "both": (begin + "    def loss(self, batch): return 0\n    def losses(self): return {}\n", r"both\.py: Mine has both loss\(\) and losses\(\)"),
            "of_none": (returns + "{'one': pipeline.Loss(self.a, 'a')}\n", r"belong to one loss, and these do not: b\.weight \(none\), b\.bias \(none\): name"),
            "of_two": (returns + "{'one': pipeline.Loss(self.a, ['a', 'b']), 'two': pipeline.Loss(self.a, 'b.bias')}\n", r"do not: b\.bias \(one and two\): name"),
            "unknown": (returns + "{'one': pipeline.Loss(self.a, ['a', 'b']), 'two': pipeline.Loss(self.a, 'b.wight')}\n", r"of 'two': no parameter or module is 'b.wight': did you mean b\.weight\?"),
            "turns": (returns + "{'one': pipeline.Loss(self.a, 'a', every=2), 'two': pipeline.Loss(self.a, 'b', every=3)}\n", r"in step 1 no loss has a turn, of 'one' \(first = 2, every = 2\)"),
            "every": (returns + "{'one': pipeline.Loss(self.a, 'a', every=0)}\n", r"every\.py:\d+: ValueError: Loss\(every=0\): must be a whole number of at least 1"),
            "option": (returns + "{'one': pipeline.Loss(self.a, ['a', 'b'], beta3=0.5)}\n", r"loss 'one' sets beta3 = 0\.5, .*it has beta1, beta2, epsilon, weight_decay"),
            "detached": (returns + "{'one': pipeline.Loss(self.a, 'a'), 'two': pipeline.Loss(self.a, 'b')}\n", r"the loss 'two' does not lead back to any of its parameters"),
            "name": (returns + "{'loss': pipeline.Loss(self.a, ['a', 'b'])}\n", r"has the name 'loss': must be a text that is neither"),
        }
        self.assert_errors(cases)


if __name__ == "__main__":
    job.main()
