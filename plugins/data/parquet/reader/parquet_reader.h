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

#ifdef __cplusplus
}
#endif
#endif
