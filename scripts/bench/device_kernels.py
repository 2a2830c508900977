"""What a device does in a step of `pipeline run`, by kernel; see scripts/gpu/list_kernels.c."""

from pathlib import Path

STEPS = 4, 8


def kernels_of_step(run, library, folder):
    """Name -> (microseconds, launches) of a step, the longest first. run(steps, environment): runs as many steps.

    Between runs of 4 and of 8 steps, so what it takes to start and to end cancels.
    """
    rows = []
    for steps in STEPS:
        file = Path(folder) / f"kernels-{steps}"
        run(steps, {"LIST_KERNELS": str(file), "CUDA_INJECTION64_PATH": str(library)})
        found = (line.split(" ", 2) for line in file.read_text().splitlines())
        rows.append({name: (float(time), int(count)) for time, count, name in found})
    fewer, more = STEPS
    per_step = {name: tuple((b - a) / (more - fewer) for a, b in zip(rows[0].get(name, (0, 0)), both)) for name, both in rows[1].items()}
    return dict(sorted(per_step.items(), key=lambda row: -row[1][0]))


def write_table(per_step, path):
    Path(path).write_text("microseconds a step,launches a step,kernel\n" +
                          "".join(f'{time:.1f},{count:.2f},"{name}"\n' for name, (time, count) in per_step.items()))


def figures_of(per_step):
    waits = per_step.get("(between)", (0, 0))[0]
    return {"kernels, ms/step": (sum(time for time, _ in per_step.values()) - waits) / 1000, "between, ms/step": waits / 1000,
            "launches/step": sum(count for name, (_, count) in per_step.items() if name != "(between)")}
