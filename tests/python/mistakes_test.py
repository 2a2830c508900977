"""What goes wrong in a user's file is one message, which begins with the file and its line; nothing hangs."""
import job

BEGIN = job.BEGIN


class MistakesTest(job.Job):
    def said(self, code, lines="", verb="run", begin=BEGIN, config=None, **sets):
        """What `pipeline run` says of the task with these lines; its first line of an error."""
        (self.folder / "mine.py").write_text(begin + lines)
        self.configure("mine.py")
        if config:
            path = self.folder / "train.toml"
            path.write_text(path.read_text().replace(*config))
        said = self.pipeline(verb, "train.toml", code=code, **sets)
        errors = [line for line in said.splitlines() if line.startswith("error: ")]
        self.assertEqual(len(errors), 1, said)
        return errors[0], said

    def assert_error(self, message, lines="", code=1, **more):
        error, said = self.said(code, lines, **more)
        self.assertRegex(error, message)
        return said

    def test_exceptions_name_the_line_and_show_the_traceback(self):
        said = self.assert_error(r"^error: \S*mine.py:13: ZeroDivisionError: division by zero$", """
    def loss(self, batch): return 1 / 0
""")
        self.assertIn("in loss", said)
        self.assertNotIn("core/sdk/python", said)
        self.assertNotIn("lib/pipeline/python", said)

    def test_every_slot(self):
        signatures = {"open_data": "self", "sample_count": "self, split", "batch": "self, split, ids, epoch",
                      "weight": "self, batch, samples", "build_model": "self", "layers": "self, model",
                      "describe_parameter": "self, parameter", "evaluate": "self, batch", "report": "self, values, records",
                      "extra_state": "self", "prepare": "self", "data_fingerprint": "self", "tokens": "self, batch"}
        self.assert_errors({f"in_{slot}": (f"\n    def {slot}({signature}): oops\n    def set_extra_state(self, state): pass\n", rf"in_{slot}.py:13: NameError: name 'oops'")
                            for slot, signature in signatures.items()})

    def test_losses_that_are_none(self):
        cases = (("self.model(batch)", r"shape \(2, 1\), must return the sum, a scalar"),
                 ("3.0", "returned float, must return a tensor"),
                 ("batch.sum()", "does not lead back to any parameter"),
                 ("self.model(batch).sum().half()", "float16, must return a sum in float32 or float64"))
        self.assert_errors({f"loss_{number}": (f"\n    def loss(self, batch): return {loss}\n", message)
                            for number, (loss, message) in enumerate(cases)})

    def test_what_would_be_wrong_in_silence(self):
        cases = {
            "buffer": ("""
    def build_model(self):
        model = nn.Linear(4, 1)
        model.register_buffer("seen", torch.zeros(1))
        return model
    def loss(self, batch):
        self.model.seen = self.model.seen + 1
        return self.model(batch).square().sum()
""", "buffer seen was replaced by another tensor, which no checkpoint would have: change it in place"),
            "parameter": ("""
    def loss(self, batch):
        self.model.bias = nn.Parameter(torch.zeros(1))
        return self.model(batch).square().sum() + self.model.weight.sum() * 0
""", "parameter bias was replaced in step 1"),
            "model": ("""
    def loss(self, batch):
        self.model = nn.Linear(4, 1)
        return self.model(batch).square().sum()
""", "self.model was replaced during the run|does not lead back"),
            "weight": ("\n    def weight(self, batch, samples): return float('nan')\n", r"weight\(\) returned nan, must return a finite number"),
            "weights": ("\n    def weight(self, batch, samples): return torch.ones(3)\n", r"weight\(\) returned tensor\(.*must return a number"),
            "count": ("\n    def sample_count(self, split): return 0.5\n", r"sample_count\('\w+'\) returned 0.5, must return a whole number"),
            "misspelt": ("\n    def describe_parameter(self, parameter): parameter.trianable = False\n", "a parameter has no trianable: name, shape, trainable"),
            "stream": ("\n    def dataset(self, split): return iter([1, 2])\n", r"dataset\('train'\) returned list_iterator, must return a map-style dataset"),
            "columns": ("\n    columns = 'yz'\n", "columns = 'yz': must be a sequence of names"),
            "teacher": ("""
    def build_model(self): return nn.ModuleList([nn.Linear(4, 1), nn.Linear(4, 1).requires_grad_(False)])
    def loss(self, batch):
        with torch.no_grad():
            self.model[1].weight.lerp_(self.model[0].weight, 0.1)
        return (self.model[0](batch) - self.model[1](batch)).square().sum()
""", "parameter 1.weight was changed by the task, in place, in step 1: the optimizer alone changes parameters"),
            "complex": ("\n    def build_model(self): return nn.ParameterList([torch.zeros(2, dtype=torch.complex64)])\n",
                        "parameter 0 is torch.complex64, must be float32, bfloat16 or float16"),
            "meta": ("\n    def build_model(self): return nn.Linear(4, 1, device='meta')\n", "parameter weight is on the device meta: build_model.. must make"),
            "lazy": ("\n    def build_model(self): return nn.LazyLinear(1)\n", "parameter weight has no shape yet"),
            "leaves": ("\n    def loss(self, batch): import os; os._exit(0)\n", "leaves.py:13: SystemExit: 0"),
            "state": ("\n    def extra_state(self): return 'text'\n    def set_extra_state(self, state): pass\n", r"extra_state\(\) returned str, must return bytes"),
            "unread": ("\n    def extra_state(self): return b'x'\n", r"extra_state\(\) needs set_extra_state\(\)"),
            "metric": ("\n    metrics = {'share': pipeline.Metric('x', better='hihger')}\n", "'hihger' is none of lower, higher"),
        }
        self.assert_errors(cases)

    def test_what_methods_return(self):
        cases = {
            "names": ("\n    def layers(self, model): return ['weight']\n", r"names.py: layers\(\) returned weight, which is no module of the model"),
            "foreign": ("\n    def layers(self, model): return [nn.Linear(4, 1)]\n", r"layers\(\) returned Linear, which is no module of the model"),
            "twice": ("""
    def build_model(self): return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    def layers(self, model): return [model[0], model[0]]
""", r"layers\(\) returned 0 twice"),
            "inside": ("""
    def build_model(self): return nn.Sequential(nn.Sequential(nn.Linear(4, 4)), nn.Linear(4, 1))
    def layers(self, model): return [model[0], model[0][0]]
""", r"layers\(\) returned 0 twice, or with another of them inside"),
            "rate": ("\n    def describe_parameter(self, parameter): parameter.lr_multiplier = '2'\n",
                     r"rate.py:13: ValueError: lr_multiplier = '2': must be a finite number"),
            "frozen": ("""
    def build_model(self): return nn.Linear(4, 1).requires_grad_(False)
    def loss(self, batch): return self.model(batch).square().sum()
""", "frozen.py: all parameters are frozen: there is nothing to train"),
            "nothing": ("\n    def evaluate(self, batch): pass\n", r"nothing.py: evaluate\(\) returned NoneType, must return a dict"),
            "tokens": ("\n    def tokens(self, batch): pass\n", r"tokens.py: tokens\(\) returned None, must return a number"),
            "weigh": ("\n    def weight(self, batch, samples): return '3'\n", r"weight\(\) returned '3', must return a number"),
            "missing": ("\n    def batch(self, split, ids, epoch): pass\n", r"batch\(\) returned None"),
            "signature": ("\n    def weight(self, batch): return 1\n", r"signature.py: load: TypeError: Mine.weight\(\) takes 2 positional arguments but 3 were given"),
            "value": ("\n    def evaluate(self, batch): return {'a': 'x'}\n", r"evaluate\(\) returned 'x' for 'a', must return a sum or \(sum, weight\)"),
            "figure": ("\n    def report(self, values, records): return {'auc': 'high'}\n", r"report\(\) returned 'high' for 'auc', must return a number or"),
            "nothing_reported": ("\n    def report(self, values, records): pass\n", r"report\(\) returned NoneType, must return a dict"),
            "described": ("\n    metrics = {'a': 'help'}\n", r"metrics\['a'\] is 'help', must be a pipeline.Metric"),
            "samples": ("\n    def dataset(self, split): return [None] * 16\n",
                        r"samples.py: default_collate\(\) makes no batch of these samples: default_collate: batch must contain .*; write collate\(\)"),
        }
        self.assert_errors(cases)

    def test_a_metric_that_evaluate_does_not_return_is_told(self):
        (self.folder / "mine.py").write_text(BEGIN + "\n    metrics = {'share': pipeline.Metric('x')}\n")
        self.configure("mine.py")
        self.assertIn("warning: metrics['share']: evaluate() returns no 'share', so there is no such figure", self.pipeline("run", "train.toml"))

    def test_what_check_plugin_finds(self):
        cases = (("def batch(self, split, ids, epoch): return torch.randn(len(ids), 4)", "the same ids, loaded again, gave another loss"),
                 ("""def batch(self, split, ids, epoch):
        assert max(ids) < 16
        return torch.eye(16, 4)[:len(ids)] * (1 + torch.arange(len(ids)).unsqueeze(1))""",
                  "FAIL a sample follows from its id: .* not from its place in the batch"),
                 ("""def build_model(self): return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    def loss(self, batch): return self.model[2](self.model[1](self.model[0](batch)).detach()).square().sum()""",
                  "FAIL gradients are those of the loss: the gradient of '0.(weight|bias)' is not that of the loss"),
                 ("def loss(self, batch): return self.model(batch).square().mean()", "the mean of those that each has alone, .* it must be the sum over the batch"),
                 ("""def build_model(self): return nn.ModuleList([nn.Linear(4, 1)])
    def loss(self, batch): return nn.functional.linear(batch, self.model[0].weight).square().sum()""",
                  "FAIL values of a unit are used only while it is open: .*0.weight was used without calling the layer"))
        for lines, message in cases:
            with self.subTest(message):
                (self.folder / "mine.py").write_text(f"{BEGIN}\n    {lines}\n")
                self.assertRegex(self.pipeline("check-plugin", "mine.py", code=1), message)

    def test_a_weight_that_is_used_outside_of_its_layer(self):
        self.assert_error("0.weight was used without calling the layer|0.bias was used without calling the layer", """
    def build_model(self): return nn.ModuleList([nn.Linear(4, 1)])
    def loss(self, batch): return nn.functional.linear(batch, self.model[0].weight, self.model[0].bias).square().sum()
""", strategy__plugin="sharded", strategy__zero_stage=3)

    def test_steps_without_weight_and_misspelt_methods_are_told(self):
        (self.folder / "mine.py").write_text(BEGIN + "\n    def weight(self, batch, samples): return 0\n    def evalute(self, batch): return {}\n")
        self.configure("mine.py")
        said = self.pipeline("run", "train.toml", code=2)
        self.assertIn("step 1: the weights of its samples, such as their target tokens, add up to 0: it trains nothing", said)
        self.assertEqual(said.count("warning: nothing calls Mine.evalute: did you mean evaluate?"), 1)

    def test_sys_exit_is_an_error(self):
        self.assert_error(r"mine.py:13: SystemExit: 0", """
    def loss(self, batch): sys.exit(0)
""")

    def test_files_and_classes(self):
        self.assert_error("mine.py:2: ModuleNotFoundError: No module named 'nothing'", code=2, begin="\nimport nothing\n")
        self.assert_error("mine.py:1: SyntaxError", code=2, begin="class\n")
        self.assert_error("mine.py: has no class that derives from pipeline.Task", code=2, begin="import pipeline\n")
        self.assert_error("has several tasks, Mine, Other: name one in task.class, or as mine.py:Mine", "class Other(Mine): pass\n", code=2)
        self.assert_error("there is no such file", code=2, config=("mine.py", "main.py"))
        (self.folder / "typing.py").write_text(BEGIN)
        self.assert_error("Python has a module typing already: give the file another name", code=2, config=("mine.py", "typing.py"))
        self.assert_error("mine.py starts a run while it is loaded", "pipeline.main(Mine)\n", code=2)
        self.assert_error("task.file is required", code=2, config=("file =", "# file ="))
        self.assert_error("task.python = python9: cannot be started", code=2, task__python="python9")

    def test_options(self):
        self.assert_error(r"train.toml:4: task.widht = 3: unknown key", """
    @dataclass
    class Options:
        width: int = 3
""", code=2, config=("file =", "widht = 3\nfile ="))
        self.assert_error(r"task.width = 0: must be at least 1|task.width = 0: ", """
    @dataclass
    class Options:
        width: int = pipeline.option(3, minimum=1)
""", code=2, config=("file =", "width = 0\nfile ="))
        self.assert_error("mine.py: Mine.Options.widths: <class .tuple.> is no type of an option", """
    @dataclass
    class Options:
        widths: tuple = (3, 4)
""", code=2)
        self.assert_error("mine.py: Mine.Options.file: every task in Python has this key", """
    @dataclass
    class Options:
        file: str = "x"
""", code=2)
        self.assert_error("mine.py: Mine.Options must be a dataclass: write @dataclass above it", """
    class Options:
        width = 3
""", code=2)

    def test_a_missing_method_is_named(self):
        self.assert_error("mine.py: Mine needs build_model", begin=BEGIN.replace("def build_model", "def make_model"))
        self.assert_error("mine.py: Mine needs loss", begin=BEGIN.replace("def loss", "def cost"))

    def test_a_step_that_hangs_is_shown(self):
        """One process, in a call that keeps the interpreter's lock."""
        said = self.assert_error("no progress for 2", """
    def loss(self, batch):
        import ctypes
        while True: ctypes.PyDLL(None).usleep(10 ** 8)
""", launch__stall_seconds=2)
        self.assertRegex(said, r"hangs here, in training, step 1:\n  threads: main waits")
        self.assertRegex(said, r'  File "\S*mine.py", line 15 in loss\n')

    def test_rows_without_a_number(self):
        (self.folder / "mine.py").write_text(BEGIN + """
    columns = ("y",)
    def predict(self, batch): return [(float("nan") if i == 2 else 1.0,) for i in range(len(batch))]
""")
        self.configure("mine.py")
        self.pipeline("run", "train.toml", train__micro_batch=4)
        said = self.pipeline("predict", "train.toml", "--split", "val", code=1, train__micro_batch=4)
        self.assertRegex(said, r"predict\(\) returned nan in the column y of sample 2, must return a number")

    def test_threads_that_never_end_hang_nothing(self):
        (self.folder / "mine.py").write_text(BEGIN + """
    def open_data(self):
        threading.Thread(target=lambda: time.sleep(1000)).start()
""")
        self.configure("mine.py")
        self.assertIn("done: run", self.pipeline("run", "train.toml"))

if __name__ == "__main__":
    job.main()
