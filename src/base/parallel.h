// parallel: a number of independent jobs on several threads.
// In: how many jobs, how many threads at most, what does one. Out: all are done, or one has failed.
// Invariant: jobs are taken in order; where one fails no new one begins, and err is that of the first that did.
// Example: TRY(parallel_run(n_sources, cpu_count(), source_compile, &batch, err));
#pragma once
#include "base/error.h"

enum { PARALLEL_MOST = 256 };
typedef bool (*ParallelJob)(void *context, int i, Error *err);
// The caller's thread is one of the n_threads; at most PARALLEL_MOST.
bool parallel_run(int n, int n_threads, ParallelJob job, void *context, Error *err) MUST_CHECK;
