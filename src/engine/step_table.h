// step_table: what a step consists of, in numbers that hold in every run of the same program: which kernel each stage
// runs, on which buffers, in how many tiles, and behind which barriers.
// In: the kernels of a schedule, or the bytes that an earlier run kept. Out: a StepTable, or its bytes.
// Invariant: bytes that are no table of this graph's buffers are refused, never followed.
// Example: Text subject = table_subject(…); if (!table_load(e, arena, subject, &t)) table_keep(e, arena, subject, &t);
#pragma once
#include "engine/engine_private.h"

typedef enum PlaceKind { PLACE_BUFFER, PLACE_BLOCK, PLACE_OUTPUT, PLACE_KINDS } PlaceKind;
typedef struct Place { int64_t kind, at; } Place;    // at: a buffer's id, an offset in the block, an output's number

typedef struct TableKernel { const void *key; int64_t key_bytes, n_params, traffic; const int64_t *whole; } TableKernel;   // whole: as in Compiled
typedef struct TableStage { int64_t kernel, tiles, needs_barrier; const Place *params; } TableStage;
// id: of an engine's buffer; TABLE_NEW: its own, of nbytes; TABLE_NONE: nothing to read. same_as: the first output of this value.
enum { TABLE_NONE = -1, TABLE_NEW = -2 };
typedef struct TableOutput { int64_t id, nbytes, same_as; } TableOutput;

typedef struct StepTable {
    TableKernel *kernels;
    TableStage *stages;
    TableOutput *outputs;
    int64_t n_kernels, n_stages, n_outputs, block_bytes;    // block: temporaries
    int64_t n_shared;                  // sums that are shared out over tiles, or would be in another form
} StepTable;

// What decides the table: device, target, the graph under the outputs, and the lengths of its buffers.
Text table_subject(Engine *e, Arena *arena, UOp *const *outputs, int n);
// False: an earlier run kept none, or not all texts of its kernels.
bool table_load(Engine *e, Arena *arena, Text subject, int n_outputs, StepTable *table, Compiled ***kernels);
void table_keep(Engine *e, Arena *arena, Text subject, const StepTable *table);
