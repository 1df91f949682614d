// vectorize_private: what the files of the pass vectorize share. In: pieces asked of each other. Out: native vectors.
// Invariant: a piece has as many lanes as asked for, a power of two that fits a register, or is a list of such parts.
// Example: piece(s, u, 32, 64) → lanes 32 to 63 of u.
#pragma once
#include "base/map.h"
#include "codegen/codegen.h"

typedef struct Splitter {
    Graph *graph;
    Arena *arena;
    const Target *target;      // of the store whose pieces are asked for
    Map memo[2];               // pieces, of registers as long as the target's own and as its wide ones
    UOpMap statements, regs;   // what several stores share is as long as the first one has it
    Map halves;                // numbers of 16 bits that the kernel reads: (memory, base of the index, offset)
    bool has_tiles;            // threads compute tiles of elements
} Splitter;

// vectorize.c
UOp *piece(Splitter *s, UOp *u, int a, int b);
UOp *vconst(Splitter *s, DType dtype, const int64_t *bits, int n);
UOp *join(Splitter *s, UOp *const *parts, int n);
UOp *pick(Splitter *s, UOp *v, const int64_t *map, int n);
UOp *broadcast(Splitter *s, UOp *scalar, int n);
UOp *pick_pair(Splitter *s, UOp *a, UOp *b, const int64_t *map, int n);     // lanes of two registers
UOp *offset_index(Splitter *s, UOp *index, int64_t offset);
// Lanes [a, b) of a vector of constants. False: u is none.
bool constants_of(Splitter *s, UOp *u, int a, int b, int64_t *out);

bool is_broadcast(const UOp *u);                    // one scalar in all lanes
bool is_constant(const UOp *u);                     // a number, or a vector of them
bool is_uniform(const UOp *u);                      // of constants: all the same
int native_lanes(const Splitter *s, DType dtype);   // of a register
void push(Splitter *s, UOpList *list, UOp *u);
UOp *runs(Splitter *s, UOp *u, int a, int b, int native);    // lanes [a, b), joined of pieces of `native`

// vector_sums.c
UOp *combined(const Splitter *s, Monoid m, UOp *a, UOp *b);  // by the monoid's own operation
UOp *piece_hfold(Splitter *s, UOp *u, int a, int b);

// fields.c
// Lanes [a, b) of a bit field of bytes. NULL: u is none that a shift of wide lanes makes.
UOp *piece_field(Splitter *s, UOp *u, int a, int b);
UOp *bitwise_bytes(Splitter *s, Op op, UOp *a, UOp *b);      // AND, OR or XOR of two vectors; of four bytes as one number, where that is better

// near.c
// Bytes that LOADs of one buffer of weights read, from lo to hi behind the index of the first LOAD, lanes that nobody asks for too.
typedef struct Span {
    UOp *load, *base;          // the first load; base + constant is its index
    int64_t constant, lo, hi;
} Span;
// Takes one more LOAD; its offsets start `from` behind the first one's. False: it reads other memory, what the kernel stores, or no bytes.
bool span_add(Span *span, UOp *load, int64_t *from);
UOp *load_at(Splitter *s, UOp *load, DType dtype, int lanes, int64_t offset);    // another piece of a LOAD's memory, behind its index
// Whether `width` bytes from `first` on may be read: they lie in the span from lo to hi of what LOADs read, or in the buffer.
bool may_read(const UOp *load, int64_t lo, int64_t hi, int64_t first, int64_t width);
void span_of(const UOp *load, int64_t *lo, int64_t *hi);                       // the least and the greatest offset of a LOAD
bool is_run(const int64_t *offset, int n);                                     // each is one more than the one before
bool is_in_buffer(const UOp *load, int64_t offset, int64_t width);             // so many bytes from there on, wherever the index may be
// A vector of n elements at these offsets of a LOAD, from few loads. NULL where halves of it are better off alone.
UOp *piece_near(Splitter *s, UOp *load, const int64_t *offset, int n);
// The first offset of the run of elements, `step` from each other, that a LOAD has around an offset, of `bytes` at least; `otherwise` where it is shorter.
int64_t run_start(Splitter *s, const UOp *load, int64_t offset, int64_t step, int64_t bytes, int64_t otherwise);
// Bytes at offsets from a LOAD's index, those of each part of 16 near each other, from loads that stay in [lo, hi]. NULL
// where they do not.
UOp *bytes_of_parts(Splitter *s, UOp *load, const int64_t *at, int n, int64_t lo, int64_t hi);
// The word of 4 or 8 bytes from `start` on that holds bytes least … most of a LOAD, again and again in n lanes. NULL: none does
// that stays in [lo, hi].
UOp *word_of_all(Splitter *s, UOp *load, int64_t least, int64_t most, int64_t lo, int64_t hi, int n, int64_t *start);

// whole_registers.c
// A vector of n elements at these offsets of a LOAD, from registers of memory. NULL where the target has no shuffles of two of them, or others do.
UOp *piece_from_registers(Splitter *s, UOp *load, const int64_t *offset, int n);
// A register of bytes at any offsets of a LOAD that two registers of memory hold. NULL: they need more, or would reach out of [lo, hi] and the buffer.
UOp *bytes_from_registers(Splitter *s, UOp *load, const int64_t *offset, int n, int64_t lo, int64_t hi);

// gathered.c
// Lanes [a, b) of bytes that are unions of fields of others, each lane by its own rule. NULL: u is no such union, or lanes have one rule.
UOp *piece_gathered(Splitter *s, UOp *u, int a, int b);

// packed.c
enum { PACKED_LANES = 32 };     // most bytes that one instruction of every compiler shuffles
// Lanes [a, b) of a value of bytes, cut out of words that neighbouring bytes make. NULL: u is no such value.
UOp *piece_packed(Splitter *s, UOp *u, int a, int b);
// Of n bytes of u from lane a on, each moved down by moved[k] bits (up, where negative), what kept[k] says, by BITS. NULL where
// the target has none, or lanes do not lie near each other.
UOp *piece_moved(Splitter *s, UOp *u, int a, int n, const int *moved, const int *kept);

// index = base + constant.
static inline UOp *base_of(UOp *index, int64_t *constant) {
    *constant = 0;
    return index->op == OP_ADD && uop_is_int_const(index->src[1], constant) ? index->src[0] : index;
}
