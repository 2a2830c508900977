"""configs/pipeline.schema.json is a JSON Schema, accepts every configuration, and refuses what the program refuses, plugin by plugin.

usage: schema_check.py CHECKOUT
"""
import json
import sys
import tomllib
from pathlib import Path

import jsonschema

CONFIGS = Path(sys.argv[1]) / "configs"
schema = json.loads((CONFIGS / "pipeline.schema.json").read_text())
jsonschema.Draft7Validator.check_schema(schema)
validator = jsonschema.Draft7Validator(schema)


def errors(text):
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in validator.iter_errors(tomllib.loads(text))]


for config in sorted(CONFIGS.glob("*.toml")):
    assert not errors(config.read_text()), f"{config.name}: {errors(config.read_text())}"

# Each plugin's table takes its own options and no other's.
for definition, table in schema["definitions"].items():
    if "." not in definition:
        continue
    kind, plugin = definition.split(".")
    assert not errors(f'[{kind}]\nplugin = "{plugin}"'), definition
    wrong = errors(f'[{kind}]\nplugin = "{plugin}"\nno_option = 1')
    assert len(wrong) == 1 and wrong[0].startswith(f"{kind}: ") and "no_option" in wrong[0], (definition, wrong)

RIGHT = [
    '[task]\nplugin = "template"\nwidth = 8',
    '[task.model]\nn_head = 2',  # in a file that extends another: no plugin is named
    '[task]\nplugin = "one_of_my_own"\nanything = 1',
    '[strategy]\nplugin = "auto"\nbucket_mib = 2.0',
    '[[stage]]\nname = "a"\nrun.seed = 3',
    '[train]\nmax_steps = "unset"',
    '[optimizer]\nplugin = "lion"\nrho = 0.5',
    '[task]\nplugin = "chat"\n[[task.data.source]]\npath = "a"\nweight = 2',
    '[task]\nplugin = "chat"\n[task.data.source]\npath = ["a", "b"]\nweight = [2, 1]',
    '[stage]\nname = "sft"\nkind = "train"\ninit_from = "pretrain"',  # as a run keeps it
    '[[stage]]\nname = "sft"\ninit_from = "pretrain"\n[stage.train]\nmax_steps = 3',
]
WRONG = {
    '[task]\nplugin = "template"\nwidth = 0': "task.width: ",
    '[task]\nplugin = "template"\nn_head = 2': "task: ",
    '[task]\nplugin = "summarization"\n[task.language]\nn_heads = 2': "task.language: ",
    '[strategy]\nplugin = "sharded"\nzero_stage = 4': "strategy.zero_stage: ",
    '[strategy]\nplugin = "single"\nzero_stage = 2': "strategy: ",
    '[train]\nmax_stepz = 3': "train: ",
    '[train]\nprecision = "fp8"': "train.precision: ",
    '[optimizer]\nlr = "fast"': "optimizer.lr: ",
    '[optimizer]\nlrr = 1': "optimizer: ",
    '[[stage]]\nname = "a"\n[stage.launch]\nprocesses = 2': "stage.0: ",
    '[[stage]]\nname = "a"\nrun.dir = "runs/a"': "stage.0.run: ",
    '[[stage]]\nkind = "train"': "stage.0: 'name' is a required property",
    '[[stage]]\nname = "a b"': "stage.0.name: ",
    '[strategy]\nplugin = "auto"\nzero_stages = 2': "strategy: ",
    '[stage]\nname = "a"\ntrain.max_steps = 3': "stage: ",
    'stage = 3': "stage: ",
    'extends = ""': "extends: ",
}
for text in RIGHT:
    assert not errors(text), (text, errors(text))
for text, place in WRONG.items():
    assert len(errors(text)) == 1 and errors(text)[0].startswith(place), (text, errors(text))
print("passed")
