#pragma once

typedef struct cublasContext* cublasHandle_t;
enum cublasStatus_t : int;
