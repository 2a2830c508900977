#pragma once

typedef struct cusparseContext* cusparseHandle_t;
enum cusparseStatus_t : int;
