"""The model that trains is the one that the person wrote: what would make it another one is an error that says so."""
import job

TWO_LAYERS = """
    def build_model(self): return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
"""
FROZEN = """
    def build_model(self):
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
        model[0].requires_grad_(False)
        return model
"""


def in_loss(*lines, model=TWO_LAYERS, of="self.model(batch)", method="loss", result="out.square().sum()"):
    """A task with these lines at the start of loss(), or of another method."""
    body = "".join(f"        {line}\n" for line in lines)
    return f"{model}    def {method}(self, batch):\n{body}        out = {of}\n        return {result}\n"


def in_evaluate(*lines, **more):
    return in_loss(*lines, method="evaluate", result="{}", **more)


class KeptTest(job.Job):
    def test_weights_that_are_moved(self):
        moved = r"parameter 0.weight was moved in step 1: it is {}, must be {} that the strategy trains"
        elsewhere = moved.format("in another place in memory", "in the memory")
        cases = {
            "double": (in_loss("self.model.double()", of="self.model(batch.double())"),
                       moved.format(r"torch.float64 of shape \(4, 4\)", r"torch.float32 of shape \(4, 4\)")),
            "data": (in_loss("self.model[0].weight.data = self.model[0].weight.data.clone()"), elsewhere),
            "transposed": (in_loss("self.model[0].weight.data = self.model[0].weight.data.t()"), elsewhere),
            "vector": (in_loss("torch.nn.utils.vector_to_parameters(torch.zeros(25), self.model.parameters())"), elsewhere),
            "swapped": (in_loss("torch.utils.swap_tensors(self.model[0].weight, nn.Parameter(torch.zeros(4, 4)))"), "parameter 0.weight was changed by the task, in place, in step 1"),
            "evaluated": (in_evaluate("self.model[0].weight.data = self.model[0].weight.data + 1"),
                          "parameter 0.weight was moved in the evaluation after step 4"),
            "assigned": (in_loss("self.model.load_state_dict(self.model.state_dict(), assign=True)"), "parameter 0.weight was replaced in step 1"),
            "added": (in_loss("self.model.register_parameter('more', nn.Parameter(torch.ones(1)))"),
                      "parameter more was added in step 1, so the strategy does not train it"),
            "grown": (in_loss("if self.training: self.model.append(nn.Linear(1, 1))"), "parameter 2.weight was added in step 1"),
            "deleted": (in_loss("self.model[0].bias = None"), "parameter 0.bias was replaced in step 1|parameter 0.bias was removed in step 1"),
            "tied": (in_loss("self.model[1].bias = self.model[0].bias", of="self.model[0](batch)"), "parameter 1.bias was replaced in step 1"),
            "untied": (in_loss("self.model[1].weight = nn.Parameter(torch.ones(4, 4))", model="""
    def build_model(self):
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        model[1].weight = model[0].weight
        return model
"""), "parameter 1.weight was replaced in step 1"),
        }
        self.assert_errors(cases)

    def test_weights_that_are_changed(self):
        changed = "parameter {} was changed by the task, in place, in {}: the optimizer alone changes parameters"
        teacher = "for mine, its in zip(self.model[0].parameters(), self.model[1].parameters()): mine.data.mul_(0.9).add_(its.data, alpha=0.1)"
        pair = "\n    def build_model(self): return nn.ModuleList([nn.Linear(4, 1).requires_grad_(False), nn.Linear(4, 1)])\n"
        two = "self.model[0](batch) - self.model[1](batch)"
        cases = {
            "data_add": (in_loss("self.model[0].weight.data.add_(1)"), changed.format("0.weight", "step 1")),
            "detached": (in_loss("self.model[0].weight.detach().add_(1)"), changed.format("0.weight", "step 1")),
            "inference": (in_loss("with torch.inference_mode(): self.model[0].weight.add_(1)"), changed.format("0.weight", "step 1")),
            "teacher_data": (in_loss(teacher, model=pair, of=two), changed.format("0.weight", "step 1")),
            "teacher_later": (in_evaluate(teacher, model=pair + in_loss(model="", of=two), of=two),  # found before the checkpoint of step 4
                              changed.format("0.weight", "the evaluation after step 4")),
            "late": (in_loss("self.calls = getattr(self, 'calls', 0) + 1", "if self.calls > 5: self.model[1].bias.data.add_(1)"),
                     changed.format("1.bias", "step 2|3")),
        }
        self.assert_errors(cases)

    def test_requires_grad_on_the_way(self):
        switched = r"requires_grad of parameter 0.weight was switched {} in {}: .* write a \[\[stage\]\] for each part"
        later = ("self.calls = getattr(self, 'calls', 0) + 1", "if self.calls > 5: self.model[0].requires_grad_(%s)")
        describe = "\n    def describe_parameter(self, parameter): parameter.trainable = not parameter.name.startswith('0.')\n"
        toggled = in_loss("for p in self.model[0].parameters(): p.requires_grad_(not p.requires_grad)", "held = self.model(batch * 2).sum() * 0",
                          "for p in self.model[0].parameters(): p.requires_grad_(not p.requires_grad)", result="out.square().sum() + held.detach()", model=FROZEN)
        cases = {
            "unfrozen": (in_loss(later[0], later[1] % True, model=FROZEN), switched.format("on", "step 2")),
            "frozen": (in_loss(later[0], later[1] % False), switched.format("off", "step 2")),
            "described": (in_loss(later[0], later[1] % True, model=TWO_LAYERS + describe), switched.format("on", "step 2")),
            "evaluating": (in_evaluate("self.model[0].requires_grad_(False)"), switched.format("off", "the evaluation after step 4")),
            "loading": (TWO_LAYERS + "    def weight(self, batch, samples):\n        if self.model is not None and self.training and batch.sum() > -9:\n"
                                     "            self.model[0].requires_grad_(False)\n        return 1\n", switched.format("off", r"step \d")),
            "given": (in_loss("self.model[0].bias.grad = torch.ones(4)", model=FROZEN), "parameter 0.bias, which is not trained, was given a gradient in step 1"),
        }
        self.assert_errors(cases)
        said = self.said_in_turn({"toggled": toggled})["toggled"]
        self.assertNotIn("error", said)
        self.assertEqual(len(self.losses("toggled")), 8)

    def test_gradients_that_a_strategy_has_bound(self):
        (self.folder / "mine.py").write_text(job.BEGIN + in_loss("torch.nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)"))
        self.configure("mine.py")
        self.assertIn("the gradient of 0.weight was changed by the task, in place: it is the run's alone",
                      self.pipeline("run", "train.toml", code=1, strategy__plugin="diloco"))

    def test_buffers_that_no_checkpoint_could_have(self):
        model = """
    def build_model(self):
        model = nn.Linear(4, 1)
        model.register_buffer('seen', torch.zeros(2))
        return model
"""
        lazy = "if not hasattr(self.model, 'mask'): self.model.register_buffer('mask', torch.ones(4))"
        cases = {
            "resized": (in_loss("with torch.no_grad(): self.model.seen.resize_(3)", model=model),
                        r"buffer seen is torch.float32 of shape \(3,\) on cpu, and was torch.float32 of shape \(2,\) on cpu when build_model"),
            "halved": (in_loss("self.model.seen.data = self.model.seen.data.half()", model=model), r"buffer seen is torch.float16 of shape \(2,\)"),
            "late_buffer": (in_loss(lazy, "self.model.mask.add_(1)", model=model),
                            r"buffer mask was changed in training and was not there when build_model\(\) had made the model"),
        }
        self.assert_errors(cases)
        fine = {"lazy": in_loss(lazy, of="self.model(batch * self.model.mask)", model=model),
                "data_buffer": in_loss("if self.training: self.model.seen.data = self.model.seen.data + 1", model=model)}
        for name, said in self.said_in_turn(fine).items():
            self.assertNotIn("error", said)
        self.assertIn(b'"seen": ["float32", [2]]', self.checkpoint("data_buffer"))

    def test_modes(self):
        # A pretrained part, as from_pretrained() returns it: in eval(). Its first norm is frozen, and so is all of a teacher.
        net = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            part = lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.BatchNorm1d(4))
            self.part, self.teacher, self.head, self.drop = part().eval(), part().eval(), nn.Linear(4, 1), nn.Dropout(0.5).eval()
            self.part[1].requires_grad_(False)
            self.teacher.requires_grad_(False)
        def forward(self, x): return self.head(self.drop(self.part(x) + self.teacher(x)))
    def build_model(self): return self.Net()
"""
        on = ("on = ' '.join(name for name, module in self.model.named_modules() if module.training and not list(module.children()))",
              "self.log(f'on: {on}.')")
        said = self.said_in_turn({
            "left": in_loss(*on, model=net),
            "asked": in_loss(*on, model=net + "    def eval_modules(self, model): return [model.part[3], model.drop]\n"),
            "strays": in_loss(*on, "self.model.part.eval() if self.training else self.model.train()", model=net),
            "foreign": in_loss(model=net + "    def eval_modules(self, model): return [nn.Linear(1, 1)]\n"),
        })
        trains = ["on: part.0 part.2 part.3 head drop."] * 16 + ["on: ."] * 2  # 4 steps of 4 micro-batches, an evaluation of 2 batches
        asked = [line.replace(" part.3", "").replace(" drop", "") for line in trains]
        for name, modes in {"left": trains, "asked": asked, "strays": trains}.items():
            self.assertEqual([line for line in said[name].splitlines() if line.startswith("on: ")], modes * 2)
        self.assertIn("modes: of the modules that build_model() left in eval(), 5 are trained and go to train(), and 6 stay there, since nothing in "
                      "them is trained: part.1, teacher\n", said["left"])
        self.assertNotIn("warning: modes", said["left"])
        self.assertEqual(said["strays"].count("warning: modes: the task left part in another mode in step 1; each batch begins"), 1)
        self.assertIn("error: ", said["foreign"])
        self.assertIn("eval_modules() returned Linear, which is no module of the model that build_model() made", said["foreign"])

    def test_a_file_that_was_edited_is_told(self):
        lines = in_loss()
        for name, text in {"mine": "import beside\n" + job.BEGIN + lines, "beside": "import deeper\n", "deeper": "x = 1\n"}.items():
            (self.folder / f"{name}.py").write_text(text)
        self.configure("mine.py")
        self.pipeline("run", "train.toml", train__max_steps=4)
        (self.folder / "deeper.py").write_text("x = 2\n")
        self.assertRegex(self.pipeline("run", "train.toml", train__max_steps=5),
                         r"warning: \S*mine.py: has changed since step 4 of this run: task python 1.0.0\+\w{8} now, python 1.0.0\+\w{8} then")
        self.assertNotIn("has changed since", self.pipeline("run", "train.toml", train__max_steps=6))

    def test_gradients_and_optimizers_of_its_own(self):
        own = r"backward\(\) was called by the task and gave \S+ a gradient.*: return the sum of all losses.* torch.autograd.grad\(\)"
        step = r"step\(\) of an optimizer of the task's own, {}, would change parameters of the model"
        beside = r"step\(\) of an optimizer of the task's own, SGD, changes tensors that are no part of the model, over several calls"
        cases = {
            "backward": (in_loss("if self.training: self.model(batch).sum().backward()"), own),
            "backward_evaluate": (in_evaluate("with torch.enable_grad(): self.model(batch).sum().backward()"), own),
            "step": (in_loss("torch.optim.AdamW(self.model.parameters()).step()"), step.format("AdamW")),
            "step_in_hook": (in_loss("out = self.model(batch)", "out.register_hook(lambda g: torch.optim.SGD(self.model[0].parameters(), 0.1).step())",
                                     of="out"), step.format("SGD")),
            "discriminator": (in_loss("if not hasattr(self, 'other'): self.other = nn.Linear(4, 1)", "if self.training:",
                                      "    self.other(batch).sum().backward()", "    torch.optim.SGD(self.other.parameters(), 0.1).step()"), beside),
            "average": (in_loss("if not hasattr(self, 'all'): self.all = {'mean': torch.optim.swa_utils.AveragedModel(self.model)}",
                                "self.all['mean'].update_parameters(self.model)"),
                        "n_averaged of self.all, which is no part of the model, has changed in step 1|module.0.weight of self.all"),
            "twice": (in_loss("other = self.model(batch).sum()", "out = self.model(batch)", "if out.requires_grad: out.register_hook(lambda g: other.backward())",
                              of="out"), "the gradient of .* came twice in one micro-batch"),
        }
        self.assert_errors(cases)
        probe = ("with torch.enable_grad():", "    probe = nn.Linear(4, 1)", "    optimizer = torch.optim.LBFGS(probe.parameters())",
                 "    def close():", "        optimizer.zero_grad()", "        loss = probe(batch).square().sum()", "        loss.backward()", "        return loss",
                 "    for _ in range(2): optimizer.step(close)")
        fine = {"penalty": in_loss("x = batch.clone().requires_grad_()", "if not self.training: return self.model(batch).sum()",
                                   "slope, = torch.autograd.grad(self.model(x).sum(), x, create_graph=True)",
                                   result="out.square().sum() + (slope.norm() - 1).square()"),
                "probe": in_evaluate(*probe),
                "teacher": in_loss("if not hasattr(self, 'own'): self.own = [nn.Linear(4, 1), nn.Sequential(self.model)]", "self.own[0](batch)")}
        for name, said in self.said_in_turn(fine).items():
            self.assertNotIn("error", said)
            self.assertEqual(len(self.losses(name)), 8)


if __name__ == "__main__":
    job.main()
