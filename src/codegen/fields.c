// fields: bit fields of bytes, as shifts of wide lanes: targets move no bytes apart, and some no bytes at all.
// In: AND, SHL and SHR of u8. Out: the same field by one shift and one mask, by BITS and one mask where places differ and the
// target has those, or by a test of one bit.
// Invariant: what comes in from a neighbouring byte is not kept.
// Example: ((x >> {0, 4}) & 15), 16 lanes each → (u64 lanes of x >> {0, 0, 4, 4}) & 15
#include "codegen/vectorize_private.h"
#include "ir/bounds.h"

// ((x >> down) & mask) << up on bytes, each part optional, with constants a lane: x moved by down − up, and what of it
// is kept. Of the three ops at most `depth` are taken together. False: u is no such field.
typedef struct Field { UOp *x; int moved[64], kept[64]; } Field;

enum { FEW_BYTES = 4 };

// Four bytes as one number.
static UOp *number_of_bytes(Splitter *s, UOp *bytes) {
    int64_t number = 0;
    if (bytes->op == OP_BITCAST && bytes->src[0]->dtype == DT_U32 && bytes->src[0]->lanes == 1) return bytes->src[0];
    for (int i = 0; i < FEW_BYTES && is_constant(bytes); i++) number |= (bytes->arg[bytes->lanes == 1 ? 0 : i] & UINT8_MAX) << 8 * i;
    return is_constant(bytes) ? uop_int(s->graph, DT_U32, number) : uop_new(s->graph, OP_BITCAST, DT_U32, 1, &bytes, 1, NULL, 0);
}

// Whether so many bytes are better off as one number: where registers of vectors are long, and numbers have their own.
static bool is_number_of_bytes(const Splitter *s, int n) { return n == FEW_BYTES && !s->target->group_threads; }

UOp *bitwise_bytes(Splitter *s, Op op, UOp *a, UOp *b) {
    if (!is_number_of_bytes(s, a->lanes) || dtype_bytes(a->dtype) != 1 || a->dtype == DT_BOOL) return uop_new(s->graph, op, a->dtype, a->lanes, (UOp *[]){a, b}, 2, NULL, 0);
    UOp *number = uop_binary(op, number_of_bytes(s, a), number_of_bytes(s, b));
    return uop_new(s->graph, OP_BITCAST, a->dtype, FEW_BYTES, &number, 1, NULL, 0);
}

static bool field_of(Splitter *s, UOp *u, int a, int b, int depth, Field *f) {
    int64_t up[64] = {0}, down[64] = {0}, mask[64];
    int n = b - a;
    for (int i = 0; i < n; i++) mask[i] = UINT8_MAX;
    f->x = u;
    if (f->x->op == OP_SHL) {
        if (!constants_of(s, f->x->src[1], a, b, up)) return false;
        f->x = f->x->src[0], depth--;
    }
    if (depth > 0 && f->x->op == OP_AND && constants_of(s, f->x->src[1], a, b, mask)) f->x = f->x->src[0], depth--;
    if (depth > 0 && f->x->op == OP_SHR && constants_of(s, f->x->src[1], a, b, down)) f->x = f->x->src[0];
    for (int i = 0; i < n; i++) {
        if (up[i] < 0 || up[i] > 7 || down[i] < 0 || down[i] > 7) return false;
        f->moved[i] = (int)(down[i] - up[i]);
        f->kept[i] = (int)((mask[i] & UINT8_MAX >> down[i]) << up[i] & UINT8_MAX);
    }
    return true;
}

// One shift of wider lanes, each with its own amount: what comes in from a neighbouring byte is not kept. NULL where
// directions differ, or amounts within a wide lane.
static UOp *field_by_shift(Splitter *s, const Field *f, UOp *x, int n) {
    DType wide = is_number_of_bytes(s, n) ? DT_U32 : n % 16 ? DT_U16 : DT_U64;
    int step = dtype_bytes(wide), most = 0, least = 0;
    bool all_kept = true;
    int64_t amount[32], kept[64];
    for (int i = 0; i < n; i++) {
        if (f->moved[i] != f->moved[n % 16 ? 0 : i / step * step]) return NULL;
        if (f->moved[i] > most) most = f->moved[i];
        if (f->moved[i] < least) least = f->moved[i];
        amount[i / step] = f->moved[i] < 0 ? -f->moved[i] : f->moved[i];
        kept[i] = f->kept[i];
        all_kept &= kept[i] == UINT8_MAX;
    }
    if (most && least) return NULL;
    if (most || least) {
        UOp *lanes = step == FEW_BYTES ? number_of_bytes(s, x) : uop_new(s->graph, OP_BITCAST, wide, n / step, &x, 1, NULL, 0), *by = vconst(s, wide, amount, n / step);
        UOp *moved = uop_new(s->graph, most ? OP_SHR : OP_SHL, wide, n / step, (UOp *[]){lanes, by}, 2, NULL, 0);
        x = uop_new(s->graph, OP_BITCAST, DT_U8, n, &moved, 1, NULL, 0);
    }
    return all_kept ? x : bitwise_bytes(s, OP_AND, x, vconst(s, DT_U8, kept, n));
}

// Fields of one bit: that bit is tested, whatever its place. NULL where a field is wider.
static UOp *field_by_test(Splitter *s, const Field *f, UOp *x, int n) {
    int64_t bit[64], kept[64], zero[64] = {0};
    for (int i = 0; i < n; i++) {
        if (!f->kept[i] || f->kept[i] & (f->kept[i] - 1)) return NULL;
        kept[i] = f->kept[i];
        bit[i] = f->moved[i] < 0 ? f->kept[i] >> -f->moved[i] : f->kept[i] << f->moved[i];
    }
    UOp *bits = vconst(s, DT_U8, bit, n);
    UOp *own = uop_new(s->graph, OP_AND, DT_U8, n, (UOp *[]){x, bits}, 2, NULL, 0);
    UOp *is_set = uop_new(s->graph, OP_EQ, DT_BOOL, n, (UOp *[]){own, bits}, 2, NULL, 0);
    return uop_where(is_set, vconst(s, DT_U8, kept, n), vconst(s, DT_U8, zero, n));
}

// (x >> amount) & mask, where all lanes are moved by one amount that is data: a shift of wide lanes, if nothing of a
// neighbouring byte reaches what is kept. NULL where it might.
static UOp *field_by_data(Splitter *s, UOp *u, int a, int b) {
    int64_t mask[64], most = 0;
    UOp *shifted = u->op == OP_AND ? u->src[0] : NULL, *by = shifted && shifted->op == OP_SHR ? piece(s, shifted->src[1], a, b) : NULL;
    if (!by || !is_broadcast(by) || !constants_of(s, u->src[1], a, b, mask)) return NULL;
    Bounds amount = bounds_of(by->src[0]);
    for (int i = 0; i < b - a; i++) if (mask[i] > most) most = mask[i];
    if (amount.lo < 0 || amount.hi > 7 || most << amount.hi > UINT8_MAX) return NULL;
    DType wide = b - a == 4 ? DT_U16 : b - a == 8 ? DT_U32 : DT_U64;
    int n = (b - a) / dtype_bytes(wide);
    UOp *x = piece(s, shifted->src[0], a, b), *words = uop_new(s->graph, OP_BITCAST, wide, n, &x, 1, NULL, 0);
    UOp *src[2] = {words, broadcast(s, uop_cast(by->src[0], wide), n)};
    UOp *moved = uop_new(s->graph, OP_SHR, wide, n, src, 2, NULL, 0);
    UOp *bytes = uop_new(s->graph, OP_BITCAST, DT_U8, b - a, &moved, 1, NULL, 0);
    return uop_new(s->graph, OP_AND, DT_U8, b - a, (UOp *[]){bytes, vconst(s, DT_U8, mask, b - a)}, 2, NULL, 0);
}

UOp *piece_field(Splitter *s, UOp *u, int a, int b) {
    int n = b - a;
    Field f;
    if (u->op != OP_AND && u->op != OP_SHL && u->op != OP_SHR) return NULL;
    if (u->dtype != DT_U8 || n < 4 || n > s->target->vector_bytes) return NULL;
    UOp *moved = field_by_data(s, u, a, b);
    if (moved) return moved;
    for (int depth = 3; depth > 0; depth--) {
        if (!field_of(s, u, a, b, depth, &f) || f.x == u) return NULL;
        UOp *x = piece(s, f.x, a, b), *field = field_by_shift(s, &f, x, n);
        if (!field) field = piece_moved(s, f.x, a, n, f.moved, f.kept);
        if (!field) field = field_by_test(s, &f, x, n);
        if (field) return field;
    }
    return NULL;
}
