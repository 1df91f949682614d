// roof: how fast this machine reads memory: the limit that generation is measured against.
// In: threads, bytes. Out: GB/s. Method: each thread reads its part of one buffer that no cache can hold, by several
// kernels (one stream, four streams, with prefetch); the median of five rounds each, the best kernel counts.
// Memory's speed moves with what other processes and other guests of a host do. So who times something against it opens a
// roof and asks it right before and after: each answer is the median of five rounds of the kernel that was best at first.
// Invariant: roof_measure has freed its buffer when it returns. Example: roof_measure(2, 1 << 30) → 27.5
#pragma once
#include <stddef.h>

typedef struct Roof Roof;

size_t roof_bytes(size_t free_bytes);                       // 2 GiB, which no cache holds; a quarter of what is free where that is less
size_t roof_default_bytes(void);                            // of the host's memory
Roof *roof_open(int threads, size_t nbytes);                // NULL where there is no memory for it
double roof_gb_s(const Roof *roof);                         // 10⁹ bytes a second, as measured when it was opened
double roof_gb_s_now(Roof *roof);                           // 10⁹ bytes a second, measured now
size_t roof_held_bytes(const Roof *roof);                   // of resident memory
void roof_close(Roof *roof);                                // may be NULL
double roof_measure(int threads, size_t nbytes);            // opened and closed; 0 where there is no memory for it
