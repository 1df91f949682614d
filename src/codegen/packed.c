// packed: fields of bits that lie across bytes, for a register of bytes at once.
// In: cast[u8]((word >> place) & mask), where the word of a lane is made of bytes loaded side by side. Out: of each field the
// two bytes that it lies in, picked by one shuffle of bytes, moved by one product of 16-bit numbers: two neighbours by the
// same one where they lie in the same two bytes, else even and odd lanes apart. Either way their results lie in the two
// bytes of a 16-bit lane and need no packing.
// Where the target has BITS, that takes the fields out of 8 bytes at once, whatever their places.
// Invariant: nothing is read that the loads together do not span, or their buffer does not hold.
// Example: 3 bytes hold 8 codes of 3 bits: of x = b1:b0 · 2^(16 − 12), code 2 is x >> 10 & 7 and code 3 is x >> 13.
#include "codegen/vectorize_private.h"
#include "ir/linear.h"

enum { LANES_MAX = 64, WORD_BYTES = 4, PART = 16, GROUP = 8 };   // PART: inside so many bytes every target shuffles. GROUP: of lanes, for BITS

// Byte j of lane k's word lies `at[j][k]` bytes behind the index of the span's load; has[j]: there is such a byte.
typedef struct Word {
    Span span;
    bool has[WORD_BYTES];
    int64_t at[WORD_BYTES][LANES_MAX];
} Word;

static bool word_load(Word *w, UOp *u, const int64_t *lane, int n, int byte) {
    int64_t from;
    if (byte >= WORD_BYTES || w->has[byte] || !span_add(&w->span, u, &from)) return false;
    for (int i = 0; i < n; i++) w->at[byte][i] = u->arg[lane[i]] + from;
    return w->has[byte] = true;
}

// The bytes that these lanes of u are joined of, by | and << of whole bytes. What is shifted out at the top is gone: only
// single bytes are moved, and only to places that there are.
static bool word_of(Word *w, UOp *u, const int64_t *lane, int n, int byte) {
    int64_t from[LANES_MAX];
    UOp *up = u->op == OP_SHL ? u->src[1] : NULL;
    switch (u->op) {
    case OP_LOAD: return word_load(w, u, lane, n, byte);
    case OP_CAST: return u->src[0]->dtype == DT_U8 && word_of(w, u->src[0], lane, n, byte);
    case OP_OR: return u->dtype != DT_U8 && word_of(w, u->src[0], lane, n, byte) && word_of(w, u->src[1], lane, n, byte);
    case OP_SHUFFLE:
        for (int i = 0; i < n; i++) from[i] = u->arg[lane[i]];
        return word_of(w, u->src[0], from, n, byte);
    case OP_SHL:
        if ((up->op != OP_CONST && up->op != OP_VCONST) || u->src[0]->op != OP_CAST) return false;
        for (int i = 1; i < up->n_arg; i++) if (up->arg[i] != up->arg[0]) return false;
        if (up->arg[0] < 0 || up->arg[0] % 8 || up->arg[0] / 8 >= dtype_bytes(u->dtype)) return false;
        return word_of(w, u->src[0], lane, n, byte + (int)(up->arg[0] / 8));
    default: return false;
    }
}

// Every second field, from lane `odd` on, in the low (high) byte of 16-bit lanes.
static UOp *every_second(Splitter *s, const Word *w, const int64_t *low, const int64_t *high, const int64_t *place, int n, int odd) {
    int64_t at[LANES_MAX], by[LANES_MAX / 2], keep[LANES_MAX / 2];
    for (int i = 0; i < n / 2; i++) {
        at[2 * i] = low[2 * i + odd], at[2 * i + 1] = high[2 * i + odd];
        by[i] = (int64_t)1 << (8 - place[2 * i + odd]);
        keep[i] = odd ? 0xFF00 : 8;
    }
    UOp *bytes = bytes_of_parts(s, w->span.load, at, n, w->span.lo, w->span.hi);
    if (!bytes) return NULL;
    UOp *pairs = uop_new(s->graph, OP_BITCAST, DT_U16, n / 2, &bytes, 1, NULL, 0);
    UOp *moved = uop_new(s->graph, OP_MUL, DT_U16, n / 2, (UOp *[]){pairs, vconst(s, DT_U16, by, n / 2)}, 2, NULL, 0);
    return uop_new(s->graph, odd ? OP_AND : OP_SHR, DT_U16, n / 2, (UOp *[]){moved, vconst(s, DT_U16, keep, n / 2)}, 2, NULL, 0);
}

// Fields of one width, of which every second one ends at the same distance before its neighbour, both inside two bytes: one
// shuffle and one product for both, which moves the later one to the top of the 16 bits; from there a shift takes each to its
// byte. What lies above the earlier one there is left to the mask. NULL where fields are no such pairs.
static UOp *pairs_at_once(Splitter *s, const Word *w, const int64_t *low, const int64_t *high, const int64_t *place,
                          const int64_t *mask, int n) {
    int64_t at[LANES_MAX], by[LANES_MAX / 2], down[LANES_MAX / 2], up[LANES_MAX / 2], upper[LANES_MAX / 2], distance = 0;
    int width = 0;
    while (mask[0] >> width) width++;
    if (mask[0] != ((int64_t)1 << width) - 1) return NULL;
    for (int i = 0; i < n; i++) if (mask[i] != mask[0] || (place[i] + width > 8 && high[i] != low[i] + 1)) return NULL;
    for (int i = 0; i < n / 2; i++) {
        int64_t first = place[2 * i], last = 8 * (low[2 * i + 1] - low[2 * i]) + place[2 * i + 1], end = last + width;
        if (i == 0) distance = last - first;
        if (last - first != distance || distance < 0 || distance + width > 8 || end > 16) return NULL;
        at[2 * i] = low[2 * i], at[2 * i + 1] = low[2 * i] + (end > 8);
        by[i] = (int64_t)1 << (16 - end);
        down[i] = 16 - width - distance, up[i] = 8 - width, upper[i] = 0xFF00;
    }
    UOp *bytes = bytes_of_parts(s, w->span.load, at, n, w->span.lo, w->span.hi);
    if (!bytes) return NULL;
    UOp *words = uop_new(s->graph, OP_BITCAST, DT_U16, n / 2, &bytes, 1, NULL, 0);
    UOp *moved = uop_new(s->graph, OP_MUL, DT_U16, n / 2, (UOp *[]){words, vconst(s, DT_U16, by, n / 2)}, 2, NULL, 0);
    UOp *earlier = uop_new(s->graph, OP_SHR, DT_U16, n / 2, (UOp *[]){moved, vconst(s, DT_U16, down, n / 2)}, 2, NULL, 0);
    UOp *later = uop_new(s->graph, OP_SHR, DT_U16, n / 2, (UOp *[]){moved, vconst(s, DT_U16, up, n / 2)}, 2, NULL, 0);
    later = uop_new(s->graph, OP_AND, DT_U16, n / 2, (UOp *[]){later, vconst(s, DT_U16, upper, n / 2)}, 2, NULL, 0);
    return uop_new(s->graph, OP_OR, DT_U16, n / 2, (UOp *[]){earlier, later}, 2, NULL, 0);
}

// Of each part of 16 lanes the word that holds its bytes, again and again, and where BITS finds lane k there: at[k], which stays as it is
// without such words.
static UOp *words_of_parts(Splitter *s, const Word *w, const int64_t *low, const int64_t *high, const int64_t *place, int n, int64_t *at) {
    enum { MOST = LANES_MAX / PART, WIDEST = 8 };
    UOp *part[MOST];
    int64_t start[MOST], from[LANES_MAX];
    for (int p = 0; p < n / PART; p++) {
        int64_t first = low[p * PART], last = high[p * PART];
        for (int i = p * PART; i < (p + 1) * PART; i++) first = low[i] < first ? low[i] : first, last = high[i] > last ? high[i] : last;
        int64_t run = run_start(s, w->span.load, first, 1, 1, first);        // other halves of a word's bytes take the same word
        if (last - run < WIDEST) first = run;
        if (n <= PACKED_LANES && last - first >= WORD_BYTES) return NULL;           // one register of all costs less than words of 8
        part[p] = word_of_all(s, w->span.load, first, last, w->span.lo, w->span.hi, PART, &start[p]);
        if (!part[p]) return NULL;
        for (int i = p * PART; i < (p + 1) * PART; i++) from[i] = start[p] + i % (last < start[p] + WORD_BYTES ? WORD_BYTES : WIDEST);
    }
    for (int i = 0; i < n; i++) at[i] = (8 * (low[i] - start[i / PART]) + place[i]) & 63;
    UOp *near = n > PACKED_LANES ? piece_near(s, w->span.load, from, n) : NULL;       // from the registers that hold other bytes of theirs
    return near ? near : join(s, part, n / PART);
}

// Of each group of 8 lanes, which needs bytes least … most, a word of 8 that holds those of its neighbours in memory as far as they fit, so that other
// lanes take theirs from the same; where BITS finds lane k there: at[k], which stays as it is without such words.
static UOp *words_of_groups(Splitter *s, const Word *w, const int64_t *least, const int64_t *most, const int64_t *low, const int64_t *place, int n, int64_t *at) {
    int64_t start[LANES_MAX / GROUP], from[LANES_MAX];
    for (int g = 0; g < n / GROUP; g++) {
        int64_t width = most[g] - least[g] + 1;
        if (2 * width > GROUP) return NULL;          // nobody else finds room in its word
        int64_t run = run_start(s, w->span.load, least[g], width, 1, least[g]), pitch = GROUP / width * width;
        start[g] = run + floor_of(least[g] - run, pitch) * pitch;
        if (start[g] < w->span.lo || most[g] >= start[g] + GROUP) start[g] = least[g];
    }
    for (int i = 0; i < n; i++) from[i] = start[i / GROUP] + i % GROUP < w->span.hi ? start[i / GROUP] + i % GROUP : w->span.hi;
    UOp *bytes = bytes_from_registers(s, w->span.load, from, n, w->span.lo, w->span.hi);
    for (int i = 0; i < n && bytes; i++) at[i] = (8 * (low[i] - start[i / GROUP]) + place[i]) & 63;
    return bytes;
}

// Bits of a group of 8 lanes, as BITS takes them, from bytes anywhere in the 8 that the group gets: one word for all lanes, or
// for each group those that it needs. Place k counts from byte low[k], which lies in the group's 8 with high[k].
static UOp *by_bits(Splitter *s, const Word *w, const int64_t *low, const int64_t *high, const int64_t *place, int n) {
    int64_t least[LANES_MAX / GROUP], most[LANES_MAX / GROUP], from[LANES_MAX], at[LANES_MAX], start, first = low[0], last = high[0];
    if (!s->target->has_bit_shuffle) return NULL;
    for (int g = 0; g < n / GROUP; g++) {
        least[g] = most[g] = low[g * GROUP];
        for (int i = g * GROUP; i < (g + 1) * GROUP; i++) {
            least[g] = low[i] < least[g] ? low[i] : least[g], most[g] = high[i] > most[g] ? high[i] : most[g];
            if (high[i] > low[i] + 1) return NULL;
        }
        if (most[g] - least[g] >= GROUP) return NULL;
        first = first < least[g] ? first : least[g], last = last > most[g] ? last : most[g];
    }
    UOp *bytes = word_of_all(s, w->span.load, first, last, w->span.lo, w->span.hi, n, &start);
    for (int i = 0; i < n; i++) {
        int g = i / GROUP;
        from[i] = least[g] + i % GROUP < most[g] ? least[g] + i % GROUP : most[g];
        at[i] = (8 * (low[i] - (bytes ? start : least[g])) + place[i]) & 63;
    }
    if (!bytes) bytes = words_of_parts(s, w, low, high, place, n, at);
    if (!bytes && n > PACKED_LANES) bytes = words_of_groups(s, w, least, most, low, place, n, at);
    if (!bytes) bytes = bytes_of_parts(s, w->span.load, from, n, w->span.lo, w->span.hi);
    if (!bytes) bytes = bytes_from_registers(s, w->span.load, from, n, w->span.lo, w->span.hi);
    return bytes ? uop_new(s->graph, OP_BITS, DT_U8, n, (UOp *[]){bytes, vconst(s, DT_U8, at, n)}, 2, NULL, 0) : NULL;
}

UOp *piece_moved(Splitter *s, UOp *u, int a, int n, const int *moved, const int *kept) {
    int64_t lane[LANES_MAX] = {0}, place[LANES_MAX], keep[LANES_MAX];
    Word w = {0};
    if (!s->target->has_bit_shuffle || n % PART || n > LANES_MAX || n > s->target->vector_bytes) return NULL;
    for (int i = 0; i < n; i++) lane[i] = a + i, place[i] = moved[i], keep[i] = kept[i];
    UOp *bits = word_of(&w, u, lane, n, 0) ? by_bits(s, &w, w.at[0], w.at[0], place, n) : NULL;
    if (!bits) {
        for (int i = 0; i < n; i++) place[i] = (8 * (i % 8) + moved[i]) & 63;
        bits = uop_new(s->graph, OP_BITS, DT_U8, n, (UOp *[]){piece(s, u, a, a + n), vconst(s, DT_U8, place, n)}, 2, NULL, 0);
    }
    return uop_new(s->graph, OP_AND, DT_U8, n, (UOp *[]){bits, vconst(s, DT_U8, keep, n)}, 2, NULL, 0);
}

UOp *piece_packed(Splitter *s, UOp *u, int a, int b) {
    int n = b - a;
    int64_t lane[LANES_MAX], mask[LANES_MAX], place[LANES_MAX], low[LANES_MAX] = {0}, high[LANES_MAX] = {0};
    Word w = {0};
    if (u->op != OP_CAST || u->dtype != DT_U8 || !s->target->has_byte_shuffle) return NULL;
    if (n % PART || n > LANES_MAX || n > s->target->vector_bytes || (n > PACKED_LANES && !s->target->has_bit_shuffle)) return NULL;
    UOp *field = u->src[0], *shifted = field->op == OP_AND ? field->src[0] : NULL;
    if (!shifted || shifted->op != OP_SHR || dtype_info[shifted->dtype].lo < 0 || dtype_bytes(shifted->dtype) < 2) return NULL;
    if (!constants_of(s, field->src[1], a, b, mask) || !constants_of(s, shifted->src[1], a, b, place)) return NULL;
    for (int i = 0; i < n; i++) lane[i] = a + i;
    if (!word_of(&w, shifted->src[0], lane, n, 0)) return NULL;
    for (int i = 0; i < n; i++) {
        int64_t byte = place[i] / 8;
        bool spills = (mask[i] << place[i] % 8) > UINT8_MAX;
        if (mask[i] < 0 || mask[i] > UINT8_MAX || place[i] < 0 || byte >= WORD_BYTES || !w.has[byte]) return NULL;
        if (spills && (byte + 1 >= WORD_BYTES || !w.has[byte + 1])) return NULL;
        low[i] = w.at[byte][i], high[i] = spills ? w.at[byte + 1][i] : low[i];
        place[i] %= 8;
    }
    UOp *bits = by_bits(s, &w, low, high, place, n);
    if (bits) return uop_new(s->graph, OP_AND, DT_U8, n, (UOp *[]){bits, vconst(s, DT_U8, mask, n)}, 2, NULL, 0);
    if (n > PACKED_LANES) return NULL;
    UOp *both = pairs_at_once(s, &w, low, high, place, mask, n);
    if (!both) {
        UOp *even = every_second(s, &w, low, high, place, n, 0), *odd = even ? every_second(s, &w, low, high, place, n, 1) : NULL;
        if (!odd) return NULL;
        both = uop_new(s->graph, OP_OR, DT_U16, n / 2, (UOp *[]){even, odd}, 2, NULL, 0);
    }
    UOp *bytes = uop_new(s->graph, OP_BITCAST, DT_U8, n, &both, 1, NULL, 0);
    return uop_new(s->graph, OP_AND, DT_U8, n, (UOp *[]){bytes, vconst(s, DT_U8, mask, n)}, 2, NULL, 0);
}
