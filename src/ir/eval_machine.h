// eval_machine: the instructions of the linear program interpreter, as functions with pointers to their values.
// In: instructions made by eval_program. Out: values in their places, cells read and written.
// Invariant: every value is exact in its type, floats too: a kernel may rely on how F32 rounds (x + 1.5·2^23).
// An Action reads and writes only what its Instruction points at; every access to cells is checked first.
// Example: ADD over two lanes is {run_elementwise, loop of ADD, operands → two places, out → a third}.
#pragma once
#include "ir/eval_ops.h"

// What an INDEX counts elements of. REG keeps numbers, unless somebody reads its elements as another type; PARAM and
// LOCAL are bytes.
typedef struct Cells {
    Op op;
    int64_t id;              // PARAM: its slot
    DType dtype;
    int64_t width;           // bytes of an element
    uint8_t *bytes;
    Number *numbers;         // REG: used instead of bytes
    int64_t nbytes;          // -1 where a PARAM does not state it
} Cells;

typedef struct Machine Machine;
typedef struct Instruction Instruction;
typedef bool (*Action)(Machine *m, const Instruction *in);

struct Instruction {
    Action act;
    OpLoop loop;             // elementwise
    OpOperands operands;     // the values of up to three sources; step 0 where a source has one lane
    Number *out;
    const int64_t *arg;      // the node's: SHUFFLE, HFOLD, RANGE
    Cells *cells;            // LOAD, STORE, DEFINE
    size_t target;           // RANGE: behind its END; END: behind its RANGE
    const Instruction *range;// END
    uint32_t lanes;          // of the result; STORE: of the value
    DType dtype;             // of the result; STORE: of the value
    DType source;            // CAST, BITCAST
    uint32_t width;          // bytes of one lane
    Op op;
    bool wraps;              // result: an integer narrower than 64 bits
    bool rounds;             // result: a float narrower than 64 bits
};

struct Machine {
    const Instruction *code;
    size_t n_code, at;
    int64_t tile;
    Error *err;
};

// The actions. operands are the sources in order unless said otherwise.
bool run_elementwise(Machine *m, const Instruction *in);
bool run_cast(Machine *m, const Instruction *in);
bool run_bitcast(Machine *m, const Instruction *in);
bool run_dot4(Machine *m, const Instruction *in);
bool run_copy(Machine *m, const Instruction *in);       // operands.n lanes from the source to out
bool run_shuffle(Machine *m, const Instruction *in);
bool run_lookup(Machine *m, const Instruction *in);     // target: lanes of the table
bool run_bits(Machine *m, const Instruction *in);
bool run_hfold(Machine *m, const Instruction *in);      // groups of at most HFOLD_MAX lanes
bool run_special(Machine *m, const Instruction *in);
bool run_range(Machine *m, const Instruction *in);
bool run_end(Machine *m, const Instruction *in);
bool run_define(Machine *m, const Instruction *in);
bool run_load(Machine *m, const Instruction *in);       // operands: index, valid or NULL
bool run_store(Machine *m, const Instruction *in);      // operands: index, value
bool run_add(Machine *m, const Instruction *in);        // the same: one cell grows
bool run_load_one(Machine *m, const Instruction *in);   // one lane, always valid
bool run_last_tile(Machine *m, const Instruction *in);  // operands: index; arg: tiles that come to it
bool run_store_one(Machine *m, const Instruction *in);  // one lane
enum { HFOLD_MAX = 256 };
