"""`python3 core/sdk/python --task=FILE --class=NAME VERB ...`: how `pipeline` goes on as Python."""

from pipeline.command import program

raise SystemExit(program())
