"""What pipeline.run() returns."""

import json
import pathlib


class Result:
    """What a run, or one of its stages, has left in its folder.

    folder, best, last: absolute paths; best: the checkpoint with the best evaluate.best_metric, or the last one where there was no
    evaluation; None: there is none. step: of the last one. loss: of its step, in training. figures: of the last evaluation. stages: the
    Results of a run's stages by name; the rest is then that of the last one that trains.
    """

    def __init__(self, name, kind, folder, best, last):
        self.name, self.kind, self.folder = name, kind, pathlib.Path(folder)
        self.best, self.last = (pathlib.Path(path) if path else None for path in (best, last))
        self.stages = {}
        step = _last_line(self.folder / "metrics.jsonl")
        self.step, self.loss = step.get("step", 0), step.get("loss")
        self.figures = _figures(self.folder, kind)

    def __repr__(self):
        lines = [f"folder  {self.folder}"]
        if self.step:
            lines.append(f"step    {self.step}" + ("" if self.loss is None else f", loss {self.loss:.6g} in training"))
        if self.figures:
            lines.append("figures " + ", ".join(f"{name} {value:.6g}" for name, value in self.figures.items() if isinstance(value, (int, float))))
        lines += [f"{name:8}{path}" for name, path in (("best", self.best), ("last", self.last)) if path]
        for name, stage in self.stages.items():
            lines.append(f"stage   {name} ({stage.kind})" + ("" if stage is self else "\n        " + repr(stage).replace("\n", "\n        ")))
        return "\n".join(lines)


def result_of(stages):
    """stages: what pipeline_result() of core/cli/embedding.h says."""
    results = [Result(*stage.values()) for stage in json.loads(stages)]
    trained = [result for result in results if result.kind == "train"]
    result = (trained or results)[-1]
    if result.name:
        result.stages = {each.name: each for each in results}
    return result


def _last_line(file):
    if not file.exists():
        return {}
    with file.open("rb") as lines:
        lines.seek(max(0, file.stat().st_size - (1 << 20)))
        return {name: _number(value) for name, value in json.loads((lines.read().splitlines() or ["{}"])[-1]).items()}


def _number(value):
    """JSON has no numbers that are not finite: the files have words for them, which are numbers again here."""
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value


def _figures(folder, kind):
    if kind == "train":
        evaluation = _last_line(folder / "eval.jsonl")
        return {name: value for name, value in evaluation.items() if name not in ("step", "samples", "seconds")}
    files = sorted(folder.glob("evaluation-*.json"), key=lambda file: file.stat().st_mtime)
    figures = json.loads(files[-1].read_text(encoding="utf-8"))["figures"] if files else {}
    return {name: _number(value) for name, value in figures.items()}
