"""bash_test.py PROGRAM PLUGINS: completion in a real bash, on a terminal, with the tab key."""
import os
import pty
import re
import select
import sys
import time
import unittest

import work_folder


class Bash:
    """An interactive bash without anyone's settings."""

    def __init__(self):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ.update(PS1="> ", TERM="dumb", INPUTRC="/dev/null", HISTFILE="")
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        self.type("source <(pipeline completion bash); bind 'set bell-style none'; stty cols 200; echo rea\"\"dy\n")
        self.read_until("ready")

    def type(self, keys):
        os.write(self.terminal, keys.encode())

    def read_until(self, pattern):
        """Returns what was shown up to the pattern."""
        shown, end = "", time.monotonic() + 20
        while not (match := re.search(pattern, shown)):
            ready, _, _ = select.select([self.terminal], [], [], max(0, end - time.monotonic()))
            assert ready, f"bash did not show {pattern!r} but {shown!r}"
            shown += os.read(self.terminal, 65536).decode(errors="replace")
        return match

    def close(self):
        self.type("\x15exit\n")
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


class Completion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bash = Bash()

    @classmethod
    def tearDownClass(cls):
        cls.bash.close()

    def complete(self, line, gives):
        """`line` and a tab become `gives`; a space at its end tells that the word is complete."""
        # ^A and ^E go to the line's ends: it becomes an argument of printf, so that bash itself says what it is.
        self.bash.type(line + "\t\x01printf '<%q>\\n' '\x05'\n")
        match = self.bash.read_until(r"\n<(.*)>\r?\n")
        self.assertEqual(match[1].replace("\\", ""), gives)

    def test_a_verb(self):
        self.complete("pipeline evalu", "pipeline evaluate ")

    def test_an_option(self):
        self.complete("pipeline run --fr", "pipeline run --fresh ")

    def test_a_folder_is_followed_by_more(self):
        self.complete("pipeline run con", "pipeline run configs/")

    def test_a_file(self):
        self.complete("pipeline run configs/li", "pipeline run configs/line.toml ")

    def test_a_path_with_a_space_is_quoted(self):
        self.bash.type("pipeline run configs/two\t\x01: \x05x\t\n")
        self.bash.read_until(r"two\\ words/x\.toml")

    def test_behind_a_folder_that_is_quoted(self):
        self.complete("pipeline run configs/two\\ words/", "pipeline run configs/two words/x.toml ")
        self.complete('pipeline run "configs/two words/', 'pipeline run "configs/two words/x.toml" ')
        self.complete('pipeline run "configs/two wo', 'pipeline run "configs/two words"/')
        self.complete("pipeline run x.toml --set run.dir=configs/two\\ words/", "pipeline run x.toml --set run.dir=configs/two words/x.toml ")

    def test_keys_and_values_around_the_signs_that_bash_splits_at(self):
        self.complete("pipeline run configs/line.toml --set tr", "pipeline run configs/line.toml --set train.")
        self.complete("pipeline run configs/line.toml --set train.max_st", "pipeline run configs/line.toml --set train.max_steps=")
        self.complete("pipeline run configs/line.toml --set train.precision=b", "pipeline run configs/line.toml --set train.precision=bf16 ")
        self.complete("pipeline run configs/line.toml --set=train.precision=b", "pipeline run configs/line.toml --set=train.precision=bf16 ")
        self.complete("pipeline evaluate x.toml --split=v", "pipeline evaluate x.toml --split=val ")

    def test_a_stage_after_other_assignments(self):
        self.complete("pipeline run configs/staged.toml --set run.seed=1 --stage se", "pipeline run configs/staged.toml --set run.seed=1 --stage second ")

    def test_the_program_under_its_path(self):
        self.complete(f"{work_folder.PROGRAM} predi", f"{work_folder.PROGRAM} predict ")

    def test_two_tabs_list_all(self):
        self.bash.type("pipeline completion \t\t")
        self.bash.read_until(r"bash\s+fish\s+zsh")
        self.bash.type("\x15\n")


if __name__ == "__main__":
    with work_folder.enter():
        unittest.main(argv=sys.argv[:1])
