/* embedding.h - the program as a library, for a process that brings a plugin of its own: Python, whose tasks
 * are classes of the user's.
 *
 * libpipeline.so is the whole program but for main(), and exports these functions. They are for the
 * Python package of the same version, which is installed beside it, and change with it: a plugin in a library
 * needs only pipeline.h. */
#ifndef PIPELINE_CLI_EMBEDDING_H
#define PIPELINE_CLI_EMBEDDING_H

#include "pipeline.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_embedding {
  /* The folder of bin/ and lib/. NULL: bin/pipeline is this process. */
  const char* prefix;
  /* What starts this process again, before the verb: ranks and trials are started so. NULL-terminated. */
  const char* const* command;
  pl_plugin_entry_fn entry; /* of this process's own plugin; NULL: none */
  const char* file;         /* where its code is, for messages */
  /* Where the process hangs, this signal has Python write the stacks of its threads into that file, which is
   * open and empty. 0: it cannot. */
  int stacks_signal, stacks_file;
  int is_shared; /* with work of the user's, as a notebook: a run that hangs does not end the process */
  /* What pipeline_data_fingerprint() asks: a callback in Python cannot return a struct. */
  void (*data_fingerprint)(pl_task* task, pl_str* out);
} pl_embedding;

/* Runs a command line, whose first word is the program's name. Returns the exit code: 0 done, 1 failed, 2
 * wrong usage or configuration, or a diverged run, 75 stopped by a signal. May be called again, by the same
 * thread. */
PL_EXPORT int pipeline_main(int argc, const char* const* argv, const pl_embedding* embedding);

/* The error that the last pipeline_main() has printed, without "error: "; "" if it has printed none, as where
 * other processes of the run have. Valid until the next call of pipeline_main(). */
PL_EXPORT const char* pipeline_error(void);

/* What the last `run` has left, if that ended with 0, as JSON: of each stage its name ("" where there are
 * none), its kind, its folder, and the paths of its best and its last checkpoint, "" where there is none.
 * Valid until the next call of this function. */
PL_EXPORT const char* pipeline_result(void);

/* How many optimizer steps have made the weights that a task is asked to evaluate, predict with or export. */
PL_EXPORT uint64_t pipeline_step(void);

/* The slot data_fingerprint of this process's own tasks. */
PL_EXPORT pl_str pipeline_data_fingerprint(pl_task* task);

/* The last call into all plugins: when no pipeline_main() follows. */
PL_EXPORT void pipeline_end(void);

#ifdef __cplusplus
}
#endif

#endif
