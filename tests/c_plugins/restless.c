/* What code of a task's, or a library that it uses, does to the process: it goes to another folder, closes
 * the standard streams, as daemons do, and forks a process that comes back from the slot. */
#include "linear_regression.h"

#include <sys/wait.h>
#include <unistd.h>

pl_error* __real_train(pl_task* self, const pl_batch* batch, const pl_train_args* args, pl_tensor* loss);
pl_error* __wrap_train(pl_task* self, const pl_batch* batch, const pl_train_args* args, pl_tensor* loss);

pl_error* __wrap_train(pl_task* self, const pl_batch* batch, const pl_train_args* args, pl_tensor* loss) {
  if (chdir("/") != 0) return NULL;
  if (args->step == 20 && args->micro_batch == 0) {
    const pid_t child = fork();
    int status = 0;
    if (child == 0 || waitpid(child, &status, 0) != child) return NULL;
  }
  for (int stream = 0; stream < 3; ++stream) close(stream);
  return __real_train(self, batch, args, loss);
}
