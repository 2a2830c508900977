"""needs_test.py PROGRAM PLUGINS: what `pipeline needs` says that scripts/pipeline must have built for a command."""
import os
import pathlib
import subprocess
import sys
import unittest

import work_folder


class Needs(unittest.TestCase):
    def needs(self, *words, are):
        environment = {name: value for name, value in os.environ.items() if name != "WORLD_SIZE"}
        out = subprocess.run([work_folder.PROGRAM, "needs", *words], capture_output=True, text=True, check=True, env=environment)
        self.assertEqual((out.stdout.split(), out.stderr), (are.split(), ""))

    def test_a_run_needs_its_task_and_its_strategy(self):
        self.needs("run", "configs/line.toml", are="linear_regression single")
        self.needs("evaluate", "configs/line.toml", "--set", 'strategy.plugin="sharded"', are="linear_regression sharded")
        self.needs("run", "configs/staged.toml", "--set", "stage.second.task.plugin=vlm", are="linear_regression single vlm")

    def test_several_processes_may_need_any_strategy_and_backend(self):
        for words in (["run", "--set", "launch.processes=2"], ["run", "--nodes", "2"], ["plan"], ["compare"]):
            self.needs(words[0], "configs/line.toml", *words[1:], are="backends linear_regression strategies")

    def test_all_files_that_are_compared_count(self):
        pathlib.Path("other.toml").write_text('[task]\nplugin = "vlm"\n')
        self.needs("compare", "configs/line.toml", "other.toml", are="backends linear_regression strategies vlm")

    def test_options_of_a_strategy_that_is_not_named_may_be_any_ones(self):
        self.needs("run", "configs/line.toml", "--set", "strategy.zero_stage=2", are="linear_regression strategies")

    def test_parquet_needs_its_reader(self):
        pathlib.Path("pq").mkdir(exist_ok=True)
        pathlib.Path("pq/train-0.parquet").touch()
        for data in ('train = "a.parquet"', 'train = "pq"', 'val = "pq/train-*"', 'source.path = ["a.jsonl", "pq"]'):
            pathlib.Path("chat.toml").write_text(f'[task]\nplugin = "chat"\n[task.data]\n{data}\n')
            self.needs("run", "chat.toml", are="chat parquet_reader single")
        pathlib.Path("chat.toml").write_text('[task]\nplugin = "chat"\n[[task.data.source]]\npath = "pq"\n')
        self.needs("run", "chat.toml", are="chat parquet_reader single")
        pathlib.Path("chat.toml").write_text('[task]\nplugin = "chat"\n[task.data]\ntrain = "a.jsonl"\nimages = "pq"\n')
        self.needs("run", "chat.toml", are="chat single")

    def test_which_task_takes_a_model_folder_the_tasks_say(self):
        pathlib.Path("model").mkdir(exist_ok=True)
        pathlib.Path("model/config.json").write_text('{"model_type": "esm"}')
        self.needs("predict", "model", "--set", "task.test_path=x", are="single tasks")
        self.needs("predict", "model", "--set", "task.plugin=protein", are="protein single")
        self.needs("chat", "model", are="chat single")
        self.needs("run", "model", are="")

    def test_verbs_without_a_configuration(self):
        self.needs("plugins", are="product")
        self.needs("explain", "vlm", are="vlm")
        self.needs("explain", "--schema", are="product")
        self.needs("explain", "--readme", "configs", are="product")
        self.needs("devices", are="backends strategies")
        self.needs("ls", "runs", are="")

    def test_what_is_wrong_needs_nothing(self):
        pathlib.Path("bad.toml").write_text("[task\n")
        for words in (["run"], ["run", "none.toml"], ["run", "bad.toml"], ["rum", "configs/line.toml"]):
            self.needs(*words, are="")


if __name__ == "__main__":
    with work_folder.enter():
        unittest.main(argv=sys.argv[:1])
