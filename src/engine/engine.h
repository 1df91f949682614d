// engine: the whole way down: graph → kernels → programs → launch. The only folder that knows it.
// In: tensor graphs over the engine's buffers. Out: a Step, compiled once, run again and again without building
// nodes or allocating. Invariant: buffers are named by ids that hold for all graphs of one engine.
// Example: Step *s; TRY(engine_compile(e, &y, 1, &s, err)); TRY(step_run(s, err)); step_read(s, 0, out);
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "runtime/device.h"
#include "schedule/sum_forms.h"
#include "tensor/tensor.h"

typedef struct Engine Engine;
typedef struct Step Step;

// device: a row of devices.c (NULL: cpu). target: NULL or "native". threads: 0 for all CPUs.
bool engine_open(Engine **engine, const char *device, const char *target, int threads, Error *err) MUST_CHECK;
void engine_close(Engine *engine);
const Device *engine_device(const Engine *engine);
int engine_threads(const Engine *engine);
bool engine_set_threads(Engine *engine, int threads, Error *err) MUST_CHECK;   // 0: all CPUs; a device of its own threads ignores it
const Target *engine_target(const Engine *engine);
// The form of sums of few long steps in all steps compiled from now on; at first they are ordered. A target whose tiles may not
// share a sum, and LATHE_SUMS, leave no choice: it is ignored there, and engine_may_choose_sums says so.
bool engine_may_choose_sums(const Engine *engine);
void engine_choose_sums(Engine *engine, SumForm form);
SumForm engine_sums(const Engine *engine);
void engine_keep_order(Engine *engine);                               // no sum whose bits differ from run to run, whatever is asked for

// Buffers. alloc: zeroed device memory. wrap: host memory that outlives the engine, readable 4,096 bytes behind
// its end; used in place where the device has host memory, copied else.
bool engine_buffer_alloc(Engine *engine, size_t nbytes, int64_t *id, Error *err) MUST_CHECK;
bool engine_buffer_wrap(Engine *engine, const void *data, size_t nbytes, int64_t *id, Error *err) MUST_CHECK;
// Memory for the few bytes that a step leaves for the host, which reads them without a copy where the device has such memory.
bool engine_buffer_alloc_shared(Engine *engine, size_t nbytes, int64_t *id, Error *err) MUST_CHECK;
// A part of a buffer that is one to graphs, so that one write brings what several buffers hold. offset: a multiple of
// BUFFER_PART_BYTES. No step may write a part and touch the whole, or a part that overlaps it.
enum { BUFFER_PART_BYTES = 64 };
int64_t engine_buffer_part(Engine *engine, int64_t whole, size_t offset, size_t nbytes);
// Bytes that are left of a memory that is not the host's, and what it is called; false where that is not known or not so.
bool engine_memory_room(const Engine *engine, size_t *free_bytes, const char **name);
void engine_buffer_write(Engine *engine, int64_t id, size_t offset, const void *data, size_t nbytes);
// Memory from which engine_buffer_write needs no copy, *nbytes of it; its content may change when it is given again.
// NULL: any memory is as good.
void *engine_stage(Engine *engine, size_t *nbytes);
void engine_buffer_read(Engine *engine, int64_t id, size_t offset, void *data, size_t nbytes);

// outputs: values (each gets a buffer of its own) or AFTER nodes (their stores are done). Reports the first poison.
// All nodes belong to one graph, which may die after the call.
// Of one engine several threads may compile, one after the other, and where the device's compiles_beside_runs says so beside a
// thread that runs steps. After processes_stop what is being compiled fails soon, and all that is compiled later at once.
bool engine_compile(Engine *engine, Tensor *outputs, int n, Step **step, Error *err) MUST_CHECK;
bool step_run(Step *step, Error *err) MUST_CHECK;
// The stages of several steps, one step after the other, as one: what a device does once a run it does once. A part runs as often
// as it is named, with other buffers in the place of some of its own where swaps say so. All are of one engine; the steps must
// outlive what is made of them, and keep their outputs. Parts side by side are of one step, write no common buffer and wait
// together; all but the first have a buffer of step_block_bytes for what they keep meanwhile.
typedef struct BufferSwap { int64_t from, to; } BufferSwap;
typedef struct StepPart {
    const Step *step;
    const BufferSwap *swaps;
    int n_swaps;
    bool is_beside;            // the part before it
    int64_t block;             // −1: the step's own
} StepPart;
size_t step_block_bytes(const Step *step);
bool step_join(const StepPart *parts, int n, Step **step, Error *err) MUST_CHECK;
int64_t step_output_buffer(const Step *step, int output);             // the buffer id of output i
size_t step_output_bytes(const Step *step, int output);
void step_destroy(Step *step);

// What a step consists of, for profile and tests.
typedef struct StageInfo {
    const char *name;          // of the kernel: a hash of what it is
    const char *source;        // rendered text
    int program;               // index of its distinct kernel
    long tiles;
    uint64_t bytes;            // read + written by the whole stage; of gathered rows only as many as it gathers
    bool needs_barrier;
    const int64_t *buffers;    // the engine's buffers that it touches, in the order in which it does
    int n_buffers;
} StageInfo;
int step_stage_count(const Step *step);
StageInfo step_stage(const Step *step, int i);
int step_distinct_count(const Step *step);
int step_shared_count(const Step *step);                              // sums that are shared out, or would be in another form than ordered
int engine_generated_count(const Engine *engine);                     // kernels that went through codegen: neither known nor kept by an earlier run
int engine_scheduled_count(const Engine *engine);                     // steps that were scheduled: no earlier run kept their tables
double engine_compile_seconds(const Engine *engine);                  // spent in schedule, codegen and the compiler so far
// Runs once with a time for each stage (step_stage_count entries, µs).
bool step_run_timed(Step *step, uint64_t *stage_us, Error *err) MUST_CHECK;
