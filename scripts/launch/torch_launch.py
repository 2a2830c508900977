"""For `python -m torch.distributed.launch` without --use-env, which starts Python scripts only:

    python -m torch.distributed.launch --nproc-per-node 2 scripts/launch/torch_launch.py run configs/summarization.toml

It adds --local-rank=N before the other arguments; `pipeline` takes that as it comes. PIPELINE: another program than scripts/pipeline.
"""
import os
import pathlib
import sys

program = os.environ.get("PIPELINE", str(pathlib.Path(__file__).resolve().parents[1] / "pipeline"))
os.execv(program, [program, *sys.argv[1:]])
