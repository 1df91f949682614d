// roof: how fast this machine reads memory: the limit that generation is measured against.
// In: threads, bytes. Out: GB/s. Method: each thread reads its part of one buffer that no cache can hold, by several
// kernels (one stream, four streams, with prefetch); the median of five rounds each, the best kernel counts.
// Invariant: the buffer is freed before it returns. Example: roof_measure(2, 1 << 30) → 27.5
#pragma once
#include <stddef.h>

size_t roof_bytes(size_t free_bytes);                       // 2 GiB, which no cache holds; a quarter of what is free where that is less
size_t roof_default_bytes(void);                            // of the host's memory
double roof_measure(int threads, size_t nbytes);            // 10⁹ bytes a second; 0 where there is no memory for it
