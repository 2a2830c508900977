"""Weights & Biases, for tracker_client.py. What it keeps is in the folder `wandb` of the run."""


class Tracker:
    NAME = "wandb"
    EXIT_CODES = {"finished": 0, "stopped": 75}

    def __init__(self, asked, run_id):
        import wandb

        self.run = wandb.init(project=asked["project"] or None, name=asked["name"], config=asked["config"], dir=asked["folder"], id=run_id,
                              resume="allow", settings=wandb.Settings(console="off"))
        self.run.define_metric("step")
        self.run.define_metric("*", step_metric="step")
        self.id = self.run.id

    def log(self, points):
        for step, figures in points:
            self.run.log({"step": step, **figures})

    def finish(self, how):
        self.run.finish(exit_code=self.EXIT_CODES.get(how, 1))
