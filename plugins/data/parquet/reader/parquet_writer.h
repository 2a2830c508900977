/* Parquet files whose vectors come later, made with Arrow's library: the same shared library as the reader.
 */
#ifndef PIPELINE_PARQUET_WRITER_H
#define PIPELINE_PARQUET_WRITER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_parquet_writer pl_parquet_writer;

#define PL_PARQUET_TEXT 1u    /* UTF-8 */
#define PL_PARQUET_INTEGER 2u /* int64 */
#define PL_PARQUET_VECTOR \
  3u /* a list of `width` float32, of the last column alone: its values are the caller's */

typedef struct pl_parquet_column {
  const char* name;
  uint32_t kind;
  uint32_t width;
} pl_parquet_column;

typedef struct pl_parquet_bytes {
  const void* data; /* valid until the next call with the same writer */
  uint64_t size;
} pl_parquet_bytes;

/* A writer gives the bytes of a file in their order, and leaves out the vectors: those of a row group stand
 * behind the group's bytes, as they are in memory, uncompressed. One thread at a time uses a writer. Results:
 * 1, or 0, and then *error says why: valid until the next call with the same writer, or until the thread's
 * next open. */
typedef struct pl_parquet_writer_api {
  /* NULL: *error says why. */
  pl_parquet_writer* (*open)(const pl_parquet_column* columns, uint64_t count, const char** error);
  /* Values of the row that is being written, one for each column but a vector's, in their order, each by its
   * kind's. */
  int32_t (*text)(pl_parquet_writer* writer, uint64_t column, const char* bytes, uint64_t size,
                  const char** error);
  int32_t (*integer)(pl_parquet_writer* writer, uint64_t column, int64_t value, const char** error);
  int32_t (*end_row)(pl_parquet_writer* writer, const char** error);
  /* The rows since the last group, which are one at least. */
  int32_t (*end_group)(pl_parquet_writer* writer, pl_parquet_bytes* out, const char** error);
  /* The bytes behind the last group's vectors, which end the file. */
  int32_t (*finish)(pl_parquet_writer* writer, pl_parquet_bytes* out, const char** error);
  void (*close)(pl_parquet_writer* writer);
} pl_parquet_writer_api;

#define PL_PARQUET_WRITER_SYMBOL "pl_parquet_writer_1"
/* const pl_parquet_writer_api* pl_parquet_writer_1(void) */

#ifdef __cplusplus
}
#endif
#endif
