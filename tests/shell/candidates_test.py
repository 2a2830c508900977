"""candidates_test.py PROGRAM PLUGINS: what `pipeline complete` answers, for every place of a command line."""
import re
import subprocess
import sys
import unittest

import work_folder


def answer(*words):
    out = subprocess.run([work_folder.PROGRAM, "complete", *words], capture_output=True, text=True, check=True)
    assert out.stderr == "", out.stderr
    return dict(line.split("\t") for line in out.stdout.splitlines())


def program_help(*words):
    return subprocess.run([work_folder.PROGRAM, *words, "--help"], capture_output=True, text=True, check=True).stdout


class Candidates(unittest.TestCase):
    def complete(self, *words, gives):
        self.assertEqual(sorted(answer(*words)), sorted(gives))

    def test_verbs_and_options_are_those_of_the_help(self):
        verbs = answer("")
        listed = program_help().split("Subcommands:")[1].split("\n\n")[0]
        self.assertEqual(sorted(verbs), sorted(re.findall(r"^  (\S+)", listed, re.M)))
        self.assertIn("train", answer("ru")["run"].lower())
        for verb in verbs:
            in_help = {word for word in re.findall(r"(?<![\w-])--[a-z][a-z-]*", program_help(verb).split("Example")[0])}
            self.assertEqual(set(answer(verb, "-")), in_help, verb)

    def test_hidden_arguments_stay_hidden(self):
        self.assertNotIn("--local-rank", answer("run", "--"))

    def test_files(self):
        self.complete("run", "", gives=["configs/", "runs/"])
        self.complete("run", "configs/", gives=["configs/line.toml", "configs/staged.toml", "configs/two words/"])
        self.complete("report", "runs/", gives=["runs/a/"])
        self.complete("report", "configs/l", gives=[])  # it takes a folder
        self.complete("run", "nowhere/", gives=[])
        self.complete("check-plugin", "--config", "configs/no", gives=["configs/notes.txt"])
        self.complete("run", "configs/line.toml", "--plugin-path", "con", gives=["configs/"])

    def test_what_an_option_takes(self):
        self.complete("evaluate", "configs/line.toml", "--split", "", gives=["test", "val"])
        self.complete("evaluate", "configs/line.toml", "--split=v", gives=["--split=val"])
        self.complete("predict", "configs/line.toml", "--checkpoint", "", gives=["best", "last", "configs/", "runs/"])
        self.complete("run", "configs/staged.toml", "--stage", "", gives=["first", "second"])
        self.complete("completion", "", gives=["bash", "fish", "zsh"])

    def test_when_all_is_given_options_are_left(self):
        self.assertIn("--set", answer("run", "configs/line.toml", ""))

    def test_keys_a_table_at_a_time(self):
        self.complete("run", "configs/line.toml", "--set", "tr", gives=["train."])
        self.assertIn("train.max_steps=", answer("run", "configs/line.toml", "--set", "train."))
        self.assertTrue(answer("run", "--set", "train.max_st")["train.max_steps="])  # with its help
        self.complete("run", "--set=trai", gives=["--set=train."])

    def test_values_of_keys(self):
        self.complete("run", "--set", "train.precision=", gives=["train.precision=" + v for v in ("auto", "bf16", "fp16", "fp32")])
        self.complete("run", "--set", "train.micro_batch=", gives=["train.micro_batch=auto"])
        self.complete("run", "--set", "run.reproducible=t", gives=["run.reproducible=true"])
        self.assertIn("task.plugin=linear_regression", answer("run", "--set", "task.plugin="))
        self.complete("run", "--set", "run.dir=con", gives=["run.dir=configs/"])

    def test_the_keys_of_the_plugin_that_the_configuration_names(self):
        self.complete("run", "configs/line.toml", "--set", "task.", gives=["task.plugin=", "task.model.", "task.data.", "task.predict."])
        self.complete("run", "configs/line.toml", "--set", "task.model.", gives=["task.model.features="])
        self.complete("run", "configs/line.toml", "--set", "task.predict.files=", gives=["task.predict.files=false", "task.predict.files=true"])

    def test_the_keys_of_a_stage(self):
        self.complete("run", "configs/staged.toml", "--set", "stage.", gives=["stage.first.", "stage.second."])
        self.complete("run", "configs/staged.toml", "--set", "stage.second.tr", gives=["stage.second.train."])
        self.assertNotIn("stage.", answer("run", "configs/line.toml", "--set", ""))

    def test_what_can_be_explained(self):
        found = answer("explain", "")
        for name in ("core", "train", "linear_regression", "plain_sgd"):
            self.assertIn(name, found)

    def test_nonsense_has_no_candidates(self):
        self.complete("no-verb", "", gives=[])
        self.complete("run", "--no-option=", gives=[])
        self.complete("run", "missing.toml", "--stage", "", gives=[])
        self.complete("run", "--set", "no.such=", gives=[])
        self.complete("run", "--plugin-path", "missing", "--set", "task.", gives=["task.plugin="])


if __name__ == "__main__":
    with work_folder.enter():
        unittest.main(argv=sys.argv[:1])
