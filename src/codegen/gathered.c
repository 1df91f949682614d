// gathered: bytes that are put together from bit fields of others, each lane by its own rule.
// In: OR, AND, SHL, SHR and WHERE with constant conditions of u8, over bytes loaded near each other. Out: one shuffle, which brings each lane the
// byte of its first field, and from those BITS takes first fields, then second ones, each masked, OR-ed.
// Invariant: nothing is read but what lies between the bytes that the LOADs read, or in their buffer, which this kernel does not write.
// Example: lane k < 4: h[k] & 63, lane k ≥ 4: (h[k + 4] & 15) | (h[k − 4] >> 6 << 4)
//          → x = h[{0 … 3, 8 … 11}]; x & {63 …, 15 …} | BITS(x, {…, 2, 10, 18, 26}) & {0 …, 48 …}
#include "codegen/vectorize_private.h"
#include "ir/linear.h"

// LANES: those of a register of 16 bytes; fewer are better off as numbers of four bytes. GROUP: lanes that BITS makes of as many bytes, their own.
enum { LANES = 16, GROUP = 8, TERMS = 2, WINDOWS = 2 };

// Byte `at` of what the loads span, moved down by so many bits (up where negative), and what is kept of it; nothing where that is 0.
typedef struct Term { int64_t at; int moved, kept; } Term;
typedef struct Terms { int n; Term at[TERMS]; } Terms;

typedef struct Gathered {
    Splitter *s;
    Span span;
    Terms lane[LANES];
} Gathered;

// The fields that a lane of u is the union of. False: it is no such union.
static bool add_terms(Gathered *g, UOp *u, int lane, Terms *terms) {
    Terms more;
    int64_t by;                    // an amount, a mask, a choice, or where a load starts
    if (u->dtype != DT_U8) return false;
    switch (u->op) {
    case OP_LOAD:
        if (!span_add(&g->span, u, &by)) return false;
        *terms = (Terms){1, {{u->arg[lane] + by, 0, UINT8_MAX}}};
        return true;
    case OP_SHUFFLE: return add_terms(g, u->src[0], (int)u->arg[lane], terms);
    case OP_WHERE: return constants_of(g->s, u->src[0], lane, lane + 1, &by) && add_terms(g, u->src[by ? 1 : 2], lane, terms);
    case OP_OR:
        if (!add_terms(g, u->src[0], lane, terms) || !add_terms(g, u->src[1], lane, &more) || terms->n + more.n > TERMS) return false;
        for (int i = 0; i < more.n; i++) terms->at[terms->n++] = more.at[i];
        return true;
    case OP_AND: case OP_SHL: case OP_SHR:
        if (!constants_of(g->s, u->src[1], lane, lane + 1, &by) || by < 0 || (u->op != OP_AND && by > 7)) return false;
        if (!add_terms(g, u->src[0], lane, terms)) return false;
        for (int i = 0; i < terms->n; i++) {
            Term *t = &terms->at[i];
            if (u->op == OP_AND) t->kept &= (int)by;
            else if (u->op == OP_SHL) t->moved -= (int)by, t->kept = t->kept << by & UINT8_MAX;
            else t->moved += (int)by, t->kept >>= by;
        }
        return true;
    default: return false;
    }
}

// Whether some choice or amount differs from lane to lane in [a, b).
static bool is_apart(Splitter *s, const UOp *u, int a, int b) {
    int64_t by[LANES];
    UOp *decides = u->op == OP_WHERE ? u->src[0] : u->op == OP_SHL || u->op == OP_SHR ? u->src[1] : NULL;
    if (decides && constants_of(s, decides, a, b, by)) for (int i = 1; i < b - a; i++) if (by[i] != by[0]) return true;
    if (u->op == OP_WHERE) return is_apart(s, u->src[1], a, b) || is_apart(s, u->src[2], a, b);
    if (u->op != OP_OR && u->op != OP_AND && u->op != OP_SHL && u->op != OP_SHR) return false;
    return is_apart(s, u->src[0], a, b) || (u->op == OP_OR && is_apart(s, u->src[1], a, b));
}

static const Term *term_of(const Gathered *g, int lane, int layer) {
    const Terms *terms = &g->lane[lane];
    return layer < terms->n && terms->at[layer].kept ? &terms->at[layer] : NULL;
}

static bool is_window(const Gathered *g, int64_t first) { return may_read(g->span.load, g->span.lo, g->span.hi, first, LANES); }

// Of all bytes from `from` on the first one, and the last one that a window holds with it. False: there are none.
static bool next_bytes(const Gathered *g, int64_t from, int64_t *first, int64_t *last) {
    *first = *last = INT64_MAX;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < LANES * TERMS; i++) {
            const Term *t = term_of(g, i / TERMS, i % TERMS);
            if (!t || t->at < from) continue;
            if (!pass && t->at < *first) *first = *last = t->at;
            if (pass && t->at < *first + LANES && t->at > *last) *last = t->at;
        }
    return *first != INT64_MAX;
}

// Where windows of a register start that together hold all bytes, at multiples of its length from the index without its constant where that
// does as well, so that others read the same; how many there are. 0: they are too many, or would reach out of what may be read.
static int find_windows(const Gathered *g, int64_t *window) {
    int n = 0;
    for (int64_t from = INT64_MIN, first, last; next_bytes(g, from, &first, &last); from = window[n++] + LANES) {
        int64_t even = floor_of(first + g->span.constant, LANES) * LANES - g->span.constant;
        if (n == WINDOWS) return 0;
        if (last < even + LANES && even >= from && is_window(g, even)) window[n] = even;
        else window[n] = is_window(g, first) ? first : last - LANES + 1;
        if (!is_window(g, window[n]) || window[n] < from) return 0;
    }
    return n;
}

// Which lane of a lane's group has the byte of its field as its first one; GROUP: none.
static int slot_of(const Gathered *g, int lane, const Term *term) {
    int at = 0;
    for (; at < GROUP; at++) {
        const Term *first = term_of(g, lane / GROUP * GROUP + at, 0);
        if (first && first->at == term->at) break;
    }
    return at;
}

// A field of each lane, moved there from where its byte is, and masked. NULL: some byte is nowhere in its group.
static UOp *fields_of(const Gathered *g, int layer, UOp *bytes) {
    int64_t place[LANES], kept[LANES];
    bool is_still = true;
    for (int i = 0; i < LANES; i++) {
        const Term *t = term_of(g, i, layer);
        int at = t ? slot_of(g, i, t) : i % GROUP;
        if (at == GROUP) return NULL;
        place[i] = (8 * at + (t ? t->moved : 0)) & 63, kept[i] = t ? t->kept : 0;
        is_still &= at == i % GROUP && (!t || t->moved == 0);
    }
    if (!is_still) bytes = uop_new(g->s->graph, OP_BITS, DT_U8, LANES, (UOp *[]){bytes, vconst(g->s, DT_U8, place, LANES)}, 2, NULL, 0);
    return uop_new(g->s->graph, OP_AND, DT_U8, LANES, (UOp *[]){bytes, vconst(g->s, DT_U8, kept, LANES)}, 2, NULL, 0);
}

UOp *piece_gathered(Splitter *s, UOp *u, int a, int b) {
    int64_t window[WINDOWS], map[LANES];
    Gathered g = {.s = s};
    UOp *part[WINDOWS], *made = NULL;
    if (!s->target->has_bit_shuffle || u->dtype != DT_U8 || (u->op != OP_WHERE && u->op != OP_OR) || b - a != LANES || !is_apart(s, u, a, b)) return NULL;
    for (int i = 0; i < LANES; i++) if (!add_terms(&g, u, a + i, &g.lane[i])) return NULL;
    int n = find_windows(&g, window);
    if (!n) return NULL;
    for (int k = 0; k < n; k++) part[k] = load_at(s, g.span.load, DT_U8, LANES, window[k]);
    for (int i = 0; i < LANES; i++) {
        const Term *t = term_of(&g, i, 0);
        int w = t && n > 1 && t->at >= window[1];
        map[i] = t ? w * LANES + t->at - window[w] : 0;
    }
    UOp *bytes = n == 1 ? pick(s, part[0], map, LANES) : pick_pair(s, part[0], part[1], map, LANES);
    for (int layer = 0; layer < TERMS; layer++) {
        bool is_empty = true;
        for (int i = 0; i < LANES; i++) is_empty &= !term_of(&g, i, layer);
        UOp *fields = is_empty ? made : fields_of(&g, layer, bytes);
        if (!fields) return NULL;
        made = made && !is_empty ? uop_new(s->graph, OP_OR, DT_U8, LANES, (UOp *[]){made, fields}, 2, NULL, 0) : fields;
    }
    return made;
}
