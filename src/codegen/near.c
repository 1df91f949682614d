// near: vectors of elements that lie near each other in memory, but not side by side.
// In: a LOAD and the offsets of some of its lanes. Out: few loads of words that hold them, and shuffles.
// Invariant: nothing is read but what lies between the first and the last element of the LOAD (whoever may read those may read all between them, but
// for what this kernel stores), or, by the bounds of its index, in its buffer.
// Example: bytes 4 5 6, 44 45 46, 84 85 → the words at 4, 44 and 83, side by side, and one shuffle of bytes.
#include "codegen/vectorize_private.h"
#include "ir/bounds.h"
#include "ir/linear.h"

enum { LANES_MAX = PACKED_LANES, PART = 16 };      // PART: inside so many bytes every target shuffles

static const DType words[] = {[1] = DT_U8, [2] = DT_U16, [4] = DT_U32, [8] = DT_U64};

UOp *load_at(Splitter *s, UOp *load, DType dtype, int lanes, int64_t offset) {
    UOp *src[2] = {offset_index(s, load->src[0], offset)};
    if (load->n_src > 1) src[1] = piece(s, load->src[1], 0, 1);
    return uop_new(s->graph, OP_LOAD, dtype, lanes, src, load->n_src, NULL, 0);
}

void span_of(const UOp *load, int64_t *lo, int64_t *hi) {
    *lo = *hi = load->arg[0];
    for (int i = 1; i < load->n_arg; i++) {
        if (load->arg[i] < *lo) *lo = load->arg[i];
        if (load->arg[i] > *hi) *hi = load->arg[i];
    }
}

bool span_add(Span *span, UOp *load, int64_t *from) {
    int64_t constant, lo, hi;
    UOp *index = load->src[0], *base;
    if (load->dtype != DT_U8 || load->n_src > 1 || !load->n_arg || index->src[0]->op != OP_PARAM || dtype_bytes(index->dtype) != 1) return false;
    base = base_of(index->src[1], &constant);
    span_of(load, &lo, &hi);
    if (!span->load) *span = (Span){load, base, constant, lo, hi};
    if (span->base != base || span->load->src[0]->src[0] != index->src[0]) return false;
    *from = constant - span->constant;
    if (lo + *from < span->lo) span->lo = lo + *from;
    if (hi + *from > span->hi) span->hi = hi + *from;
    return true;
}

// Whether the offsets are runs of neighbours that words of 4 could be.
static bool are_words(const int64_t *offset, int n) {
    int length = 1;
    for (int i = 1; i < n; i++, length++) {
        if (offset[i] == offset[i - 1] + 1) continue;
        if (length % 4) return false;
        length = 0;
    }
    return true;
}

bool is_run(const int64_t *offset, int n) {
    for (int i = 1; i < n; i++) if (offset[i] != offset[i - 1] + 1) return false;
    return true;
}

// A vector of bytes from few neighbouring ones: they are loaded once, as one number, repeated through the register and
// picked inside 16-byte parts, where every target can. NULL where halves of the vector are better off alone.
static UOp *few_bytes(Splitter *s, UOp *load, const int64_t *offset, int n) {
    int64_t lo = offset[0], hi = offset[0], map[64];
    int rising = 0;
    if (dtype_bytes(load->dtype) != 1 || load->dtype == DT_BOOL || n < 8 || n > s->target->vector_bytes) return NULL;
    for (int i = 0; i < n; i++) {
        if (offset[i] < lo) lo = offset[i];
        if (offset[i] > hi) hi = offset[i];
        rising += i % (n / 2) == 0 || offset[i] == offset[i - 1] + 1;
    }
    int64_t width = hi - lo + 1;
    if (rising == n || width > 8 || (width & (width - 1)) || dtype_bytes(load->src[0]->dtype) != 1) return NULL;
    UOp *word = load_at(s, load, words[width], 1, lo);
    int whole = n < 16 ? 16 : n;
    UOp *all = broadcast(s, word, whole / (int)width), *bytes = uop_new(s->graph, OP_BITCAST, load->dtype, whole, &all, 1, NULL, 0);
    for (int i = 0; i < n; i++) map[i] = i / 16 * 16 + (offset[i] - lo);
    return pick(s, bytes, map, n);
}

// Bytes from up to four (two) places, each no wider than 4 (8): a number is loaded at each, and one shuffle of bytes picks
// from all. NULL where runs of neighbours are words anyway: those are joined without a shuffle.
static UOp *scattered_bytes(Splitter *s, UOp *load, const int64_t *offset, int n) {
    int64_t span_lo, span_hi, first[PART / 4], map[PART];
    if (dtype_bytes(load->dtype) != 1 || load->dtype == DT_BOOL || dtype_bytes(load->src[0]->dtype) != 1) return NULL;
    if (!s->target->has_byte_shuffle || n < 8 || n > PART || are_words(offset, n)) return NULL;
    span_of(load, &span_lo, &span_hi);
    for (int width = 8; width >= 4; width /= 2) {
        int places = 0, i = 0;
        for (; i < n; i++) {
            int at = 0;
            while (at < places && (offset[i] < first[at] || offset[i] >= first[at] + width)) at++;
            if (at == places) {
                if (places == PART / width) break;
                first[places] = offset[i] + width - 1 > span_hi ? span_hi - width + 1 : offset[i];
                if (first[places++] < span_lo) break;
            }
            map[i] = at * width + offset[i] - first[at];
        }
        if (i < n) continue;
        UOp *parts[PART / 4];
        for (int k = 0; k < PART / width; k++) parts[k] = load_at(s, load, words[width], 1, first[k < places ? k : 0]);
        UOp *all = join(s, parts, PART / width);
        return pick(s, uop_new(s->graph, OP_BITCAST, load->dtype, PART, &all, 1, NULL, 0), map, n);
    }
    return NULL;
}

// A register whose words lie in a window of a register's length: one load and one shuffle of words.
static UOp *window_words(Splitter *s, UOp *load, const int64_t *offset, int n) {
    int size = dtype_bytes(load->dtype), word = size < 4 ? 8 : size, group = word / size, count = n / group;
    int64_t span_lo, span_hi, lo = offset[0], hi = offset[0], map[64];
    if (load->dtype == DT_BOOL || n * size != s->target->vector_bytes || dtype_bytes(load->src[0]->dtype) != size) return NULL;
    if (is_run(offset, n / 2) && is_run(offset + n / 2, n / 2)) return NULL;
    for (int i = 0; i < n; i++) {
        if (i % group && offset[i] != offset[i - 1] + 1) return NULL;
        if (offset[i] < lo) lo = offset[i];
        if (offset[i] > hi) hi = offset[i];
    }
    span_of(load, &span_lo, &span_hi);
    while (lo + n - 1 > span_hi) lo -= group;
    if (lo < span_lo || hi >= lo + n) return NULL;
    for (int i = 0; i < count; i++) {
        if ((offset[i * group] - lo) % group) return NULL;
        map[i] = (offset[i * group] - lo) / group;
    }
    UOp *picked = pick(s, load_at(s, load, group > 1 ? words[word] : load->dtype, count, lo), map, count);
    return group > 1 ? uop_new(s->graph, OP_BITCAST, load->dtype, n, &picked, 1, NULL, 0) : picked;
}

UOp *word_of_all(Splitter *s, UOp *load, int64_t least, int64_t most, int64_t lo, int64_t hi, int n, int64_t *start) {
    for (int width = 4; width <= 8; width *= 2) {
        *start = least + width - 1 > hi ? hi - width + 1 : least;
        if (*start < lo || most >= *start + width) continue;
        UOp *all = broadcast(s, load_at(s, load, words[width], 1, *start), n / width);
        return uop_new(s->graph, OP_BITCAST, load->dtype, n, &all, 1, NULL, 0);
    }
    return NULL;
}

// Bytes of one window of a register's length, where targets pick any of them. NULL where they do not lie so near.
static UOp *bytes_of_window(Splitter *s, UOp *load, const int64_t *at, int n, int64_t lo, int64_t hi) {
    int64_t least = at[0], most = at[0], map[LANES_MAX];
    if (!s->target->has_bit_shuffle || n != LANES_MAX) return NULL;
    for (int i = 1; i < n; i++) least = at[i] < least ? at[i] : least, most = at[i] > most ? at[i] : most;
    if (least + n - 1 > hi) least = hi - n + 1;
    if (least < lo || most >= least + n) return NULL;
    for (int i = 0; i < n; i++) map[i] = at[i] - least;
    return pick(s, load_at(s, load, load->dtype, n, least), map, n);
}

UOp *bytes_of_parts(Splitter *s, UOp *load, const int64_t *at, int n, int64_t lo, int64_t hi) {
    enum { MOST = 64 };
    int64_t first[MOST / PART], map[MOST];
    UOp *parts[MOST / PART] = {NULL}, *window = bytes_of_window(s, load, at, n, lo, hi);
    bool is_one = true;
    if (window) return window;
    for (int p = 0; p < n / PART; p++) {
        int64_t least = at[p * PART], most = least;
        for (int i = 1; i < PART; i++) {
            int64_t x = at[p * PART + i];
            least = x < least ? x : least, most = x > most ? x : most;
        }
        // Other vectors take their bytes of a short run from the same register; the part before may hold these too.
        int64_t run = run_start(s, load, least, 1, 1, least);
        if (run >= lo && most - run < PART) least = run;
        if (p > 0 && least >= first[p - 1] && most < first[p - 1] + PART) least = first[p - 1];
        if (least + PART - 1 > hi) least = hi - PART + 1;
        if (least < lo || most >= least + PART) return NULL;
        first[p] = least;
        for (int i = 0; i < PART; i++) map[p * PART + i] = at[p * PART + i] - least;
        parts[p] = load_at(s, load, load->dtype, PART, least);
        is_one &= parts[p] == parts[0];
    }
    bool is_still = true;
    for (int i = 0; i < n; i++) is_still &= map[i] == i % PART;
    if (is_still) return join(s, parts, n / PART);
    if (is_one) return uop_new(s->graph, OP_LOOKUP, load->dtype, n, (UOp *[]){parts[0], vconst(s, DT_U8, map, n)}, 2, NULL, 0);
    for (int i = 0; i < n; i++) map[i] += i / PART * PART;
    return pick(s, join(s, parts, n / PART), map, n);
}

// A register of bytes, none of whose parts is a run. NULL where halves do as well.
static UOp *shuffled_parts(Splitter *s, UOp *load, const int64_t *offset, int n) {
    int64_t lo, hi;
    if (dtype_bytes(load->dtype) != 1 || load->dtype == DT_BOOL || dtype_bytes(load->src[0]->dtype) != 1) return NULL;
    if (!s->target->has_byte_shuffle || n != PACKED_LANES || n > s->target->vector_bytes) return NULL;
    for (int p = 0; p < n; p += PART) if (is_run(offset + p, PART)) return NULL;
    span_of(load, &lo, &hi);
    return bytes_of_parts(s, load, offset, n, lo, hi);
}

// Whether so many bytes from an offset of a LOAD on lie in its buffer, wherever its index may be.
bool is_in_buffer(const UOp *load, int64_t offset, int64_t width) {
    UOp *buffer = load->src[0]->src[0];
    Bounds index = bounds_of(load->src[0]->src[1]);
    return buffer->op == OP_PARAM && index.lo + offset >= 0 && index.hi + offset + width <= buffer->arg[1];
}

bool may_read(const UOp *load, int64_t lo, int64_t hi, int64_t first, int64_t width) {
    return (first >= lo && first + width - 1 <= hi) || is_in_buffer(load, first, width);
}

// Of the offsets from lo to hi, those at which a LOAD has an element.
static bool *elements_read(Splitter *s, const UOp *load, int64_t lo, int64_t hi) {
    bool *is_read = arena_new(s->arena, (size_t)(hi - lo + 1));
    for (int i = 0; i < load->n_arg; i++) is_read[load->arg[i] - lo] = true;
    return is_read;
}

// Whether others lie between the elements of a LOAD of what this kernel stores: other tiles may be writing those.
static bool has_strangers_between(Splitter *s, const UOp *load) {
    int64_t lo, hi;
    bool has_strangers = false;
    if (load->src[0]->src[0]->op != OP_AFTER || uop_buffer_of(load->src[0])->op != OP_PARAM) return false;
    span_of(load, &lo, &hi);
    if (dtype_bytes(load->dtype) != dtype_bytes(load->src[0]->dtype) || hi - lo >= load->n_arg) return true;
    ArenaMark mark = arena_mark(s->arena);
    const bool *is_read = elements_read(s, load, lo, hi);
    for (int64_t i = lo; i <= hi; i++) has_strangers |= !is_read[i - lo];
    arena_release(s->arena, mark);
    return has_strangers;
}

int64_t run_start(Splitter *s, const UOp *load, int64_t offset, int64_t step, int64_t bytes, int64_t otherwise) {
    enum { MOST = 1 << 16 };                      // elements: what lies further apart is no run
    int64_t lo, hi, first = offset, end = offset;
    span_of(load, &lo, &hi);
    if (hi - lo >= MOST || offset < lo || offset > hi) return otherwise;
    ArenaMark mark = arena_mark(s->arena);
    const bool *is_read = elements_read(s, load, lo, hi);
    while (first - step >= lo && is_read[first - step - lo]) first -= step;
    while (end <= hi && is_read[end - lo]) end += step;
    arena_release(s->arena, mark);
    return (end - first) * dtype_bytes(load->dtype) >= bytes ? first : otherwise;
}

UOp *piece_near(Splitter *s, UOp *load, const int64_t *offset, int n) {
    if (has_strangers_between(s, load)) return NULL;
    UOp *made = piece_from_registers(s, load, offset, n);
    if (!made) made = few_bytes(s, load, offset, n);
    if (!made) made = scattered_bytes(s, load, offset, n);
    if (!made) made = window_words(s, load, offset, n);
    return made ? made : shuffled_parts(s, load, offset, n);
}
