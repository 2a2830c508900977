"""MLflow, for tracker_client.py. Its own files are where its tracking URI says."""


class Tracker:
    NAME = "mlflow"
    STATUS = {"finished": "FINISHED", "stopped": "KILLED"}
    AT_ONCE = {"metrics": 1000, "params": 100}  # as many as its server takes

    def __init__(self, asked, run_id):
        import mlflow

        self.mlflow = mlflow
        if asked["uri"]:
            mlflow.set_tracking_uri(asked["uri"])
        if asked["project"]:
            mlflow.set_experiment(asked["project"])
        self.id = mlflow.start_run(run_id=run_id, run_name=asked["name"]).info.run_id
        if run_id is None:  # what a run has there cannot change
            self.send("params", [mlflow.entities.Param(key, str(value)[:500]) for key, value in asked["config"].items()])

    def send(self, what, values):
        for at in range(0, len(values), self.AT_ONCE[what]):
            self.mlflow.MlflowClient().log_batch(self.id, **{what: values[at:at + self.AT_ONCE[what]]})

    def log(self, points):
        import time

        now = int(1000 * time.time())
        self.send("metrics", [self.mlflow.entities.Metric(name, value, now, step) for step, figures in points for name, value in figures.items()])

    def finish(self, how):
        self.mlflow.end_run(self.STATUS.get(how, "FAILED"))
