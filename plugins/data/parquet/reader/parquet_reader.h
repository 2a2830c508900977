/* Rows of Parquet files as JSON, read with Arrow's library. A shared library of its own, which tasks load
 * when a Parquet file is first named: nothing else links Arrow, which is large.
 *
 * Values: text and numbers are theirs in JSON; NaN and infinities are null, as what is missing is; structs
 * and maps with text as keys are objects, lists and other maps are lists; bytes, and text, that are no UTF-8
 * are an object whose one key is PL_PARQUET_BYTES and whose value is their base64; dates, times, durations,
 * decimals and UUIDs are text. All rows have a struct's fields, so one that is null is a key that is not
 * there; a column, an element of a list and a value of a map may be null. */
#ifndef PIPELINE_PARQUET_READER_H
#define PIPELINE_PARQUET_READER_H

#include <stdint.h>

#define PL_PARQUET_BYTES "\xef\xb7\x93" /* U+FDD3, which no text has */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pl_parquet pl_parquet;

/* One thread at a time uses a file. Errors are texts, valid until the next call with the same file, or until
 * the thread's next open. */
typedef struct pl_parquet_api {
  /* NULL: *error says why. */
  pl_parquet* (*open)(const char* path, const char** error);
  void (*close)(pl_parquet* file);
  uint64_t (*rows)(const pl_parquet* file);
  /* The name of a column of the outermost level; NULL behind the last one. */
  const char* (*column)(const pl_parquet* file, uint64_t index);
  /* Only the named columns that are there are read from now on; before the first row. */
  void (*select)(pl_parquet* file, const char* const* names, uint64_t count);
  /* The next row: 1, and its text, valid until the next call; 0: there is none; -1: *error says why. */
  int32_t (*next)(pl_parquet* file, const char** text, uint64_t* bytes, const char** error);
  /* The group, from 0, of the row that came last. */
  uint64_t (*row_group)(const pl_parquet* file);
} pl_parquet_api;

#define PL_PARQUET_SYMBOL "pl_parquet_reader_1"
/* const pl_parquet_api* pl_parquet_reader_1(void) */

/* Files whose vectors come later, made with the same library. */
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
