// textform_read: text back into a graph. See textform.h for the grammar.
// In: text. Out: the node of its last line.
// Invariant: every node is checked (verify_form, sizes, infer) before it is made, so that no text
// can crash later code.
// Example: "%0 = const:i32 {3}\n%1 = neg:i32(%0)" is NEG(CONST 3).
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "ir/textform.h"
#include "ir/verify.h"

enum { MAX_ITEMS = UINT16_MAX, MAX_NUMBER = 1 << 24, MAX_AXES = 16 };
static const int64_t MAX_ELEMENTS = (int64_t)1 << 48;

typedef VEC(int64_t) Numbers;
typedef VEC(UOp *) Nodes;

typedef struct Reader {
    Graph *g;
    Arena *arena;
    const char *at, *end, *name;
    int line;
    Error *err;
    Nodes by_number;
    UOp *last;
} Reader;

static bool bad(Reader *r, const char *what) {
    int shown = 0;
    while (shown < 40 && r->at + shown < r->end && r->at[shown] != '\n') shown++;
    return fail(r->err, LATHE_BAD_FILE, "%s:%d: %s at \"%.*s\"", r->name, r->line, what, shown,
                r->at);
}

static void skip_blanks(Reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r')) r->at++;
}

static bool take(Reader *r, char c) {
    skip_blanks(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static bool read_word(Reader *r, char word[32]) {
    size_t n = 0;
    skip_blanks(r);
    while (r->at + n < r->end && (isalnum((unsigned char)r->at[n]) || r->at[n] == '_') && n < 31)
        n++;
    memcpy(word, r->at, n);
    word[n] = 0;
    r->at += n;
    return n > 0;
}

// The digits of a number as C text, so that strtoll and strtod cannot run past the end.
static bool read_digits(Reader *r, char digits[64]) {
    size_t n = 0;
    skip_blanks(r);
    while (r->at + n < r->end && n < 63 &&
           (isalnum((unsigned char)r->at[n]) || strchr("+-.:", r->at[n])))
        n++;
    memcpy(digits, r->at, n);
    digits[n] = 0;
    return n > 0 || bad(r, "expected a number");
}

static bool read_int(Reader *r, int64_t *out) {
    char digits[64], *end;
    if (!read_digits(r, digits)) return false;
    *out = strtoll(digits, &end, 10);
    if (end == digits || *end) return bad(r, "expected a whole number");
    r->at += strlen(digits);
    return true;
}

static bool read_float_bits(Reader *r, int64_t *out) {
    char digits[64], *end;
    if (!read_digits(r, digits)) return false;
    double value = strtod(digits, &end);
    memcpy(out, &value, sizeof *out);
    if (!strncmp(digits, "nan:", 4)) *out = (int64_t)strtoull(digits + 4, &end, 16);
    if (end == digits || *end) return bad(r, "expected a number");
    r->at += strlen(digits);
    return true;
}

// ---------------------------------------------------------------- the parts of a line

static bool same_lower(const char *upper, const char *word) {
    size_t i = 0;
    while (upper[i] && tolower((unsigned char)upper[i]) == word[i]) i++;
    return !upper[i] && !word[i];
}

static bool read_op(Reader *r, Op *op) {
    char word[32];
    skip_blanks(r);
    const char *start = r->at;
    if (!read_word(r, word)) return bad(r, "expected an op");
    for (int o = 0; o < OP_COUNT; o++)
        if (same_lower(op_info[o].name, word)) return *op = (Op)o, true;
    r->at = start;
    return bad(r, "unknown op");
}

static bool read_dtype(Reader *r, DType *dtype, int *lanes) {
    char word[32];
    if (!take(r, ':') || !read_word(r, word)) return bad(r, "expected :dtype");
    *lanes = 1;
    char *x = strchr(word, 'x');
    if (x) {
        char *end;
        long n = strtol(x + 1, &end, 10);
        if (n < 1 || n > UINT16_MAX || *end) return bad(r, "a wrong number of lanes");
        *lanes = (int)n;
        *x = 0;
    }
    for (int d = 0; d < DT_COUNT; d++)
        if (same_lower(dtype_info[d].name, word)) return *dtype = (DType)d, true;
    return bad(r, "unknown dtype");
}

static bool read_list(Reader *r, char close, bool floats, Numbers *out) {
    while (!take(r, close)) {
        int64_t v;
        if (out->len && !take(r, ',')) return bad(r, "expected , or the closing bracket");
        if (out->len >= MAX_ITEMS) return bad(r, "too many items");
        if (floats ? !read_float_bits(r, &v) : !read_int(r, &v)) return false;
        vec_push(r->arena, out, v);
    }
    return true;
}

static bool read_number(Reader *r, size_t *number) {
    int64_t v;
    if (!take(r, '%')) return bad(r, "expected %");
    if (!read_int(r, &v)) return false;
    if (v < 0 || v >= MAX_NUMBER) return bad(r, "a wrong node number");
    *number = (size_t)v;
    return true;
}

static bool read_sources(Reader *r, Nodes *out) {
    while (!take(r, ')')) {
        size_t number;
        if (out->len && !take(r, ',')) return bad(r, "expected , or )");
        if (out->len >= MAX_ITEMS) return bad(r, "too many sources");
        if (!read_number(r, &number)) return false;
        UOp *u = number < r->by_number.len ? r->by_number.at[number] : NULL;
        if (!u) return bad(r, "a source that no line above defines");
        vec_push(r->arena, out, u);
    }
    return true;
}

static bool read_message(Reader *r, const char **message) {
    TextBuilder b = builder(r->arena);
    for (; r->at < r->end && *r->at != '"' && *r->at != '\n'; r->at++) {
        bool escaped = *r->at == '\\' && r->at + 1 < r->end;
        if (escaped) r->at++;
        builder_char(&b, escaped && *r->at == 'n' ? '\n' : *r->at);
    }
    *message = builder_cstr(&b);
    return take(r, '"') || bad(r, "expected the closing quote");
}

// ---------------------------------------------------------------- nodes

static int64_t count_of(const int64_t *shape, int n) {
    int64_t count = 1;
    for (int i = 0; i < n; i++) {
        if (shape[i] < 1 || shape[i] > MAX_ELEMENTS / count) return -1;
        count *= shape[i];
    }
    return count;
}

static const char *size_problem(Op op, const Numbers *arg) {
    OpKind kind = op_info[op].kind;
    bool axes = kind == KIND_MOVE || kind == KIND_REDUCE || op == OP_BUFFER || op == OP_IOTA;
    if (!axes) return NULL;
    if (arg->len > 2 * MAX_AXES) return "too many axes";
    int first = op == OP_BUFFER ? 3 : 0;
    bool is_shape = op == OP_RESHAPE || op == OP_EXPAND || op == OP_BUFFER || op == OP_IOTA;
    if (is_shape && count_of(arg->at + first, (int)arg->len - first) < 0)
        return "a wrong or too big shape";
    for (size_t i = (size_t)first; i < arg->len; i++)
        if (arg->at[i] < 0 || arg->at[i] > MAX_ELEMENTS) return "an arg that is no size";
    return NULL;
}

static bool make_node(Reader *r, Op op, DType dtype, int lanes, const Nodes *src,
                      const Numbers *arg, const Numbers *shape) {
    int n_src = (int)src->len, n_arg = (int)arg->len;
    const char *problem = verify_form(op, dtype, src->at, n_src, arg->at, n_arg);
    if (!problem) problem = size_problem(op, arg);
    if (problem) return bad(r, problem);
    UOp *u = uop_new(r->g, op, dtype, lanes, src->at, n_src, arg->at, n_arg);
    if (uop_is_poison(u) && !(n_src && uop_is_poison(src->at[0]))) return bad(r, u->message);
    if (u->dtype != dtype || u->lanes != lanes)
        return bad(r, "the type is not what the sources give");
    if (u->ndim > MAX_AXES || count_of(u->shape, u->ndim) < 0)
        return bad(r, "the shape is too big");
    bool same = (size_t)u->ndim == shape->len;
    for (int i = 0; same && i < u->ndim; i++) same = shape->at[i] == u->shape[i];
    if (!same) return bad(r, "the shape is not what the sources give");
    r->last = u;
    return true;
}

static bool number_node(Reader *r, size_t number) {
    if (number < r->by_number.len && r->by_number.at[number])
        return bad(r, "a node number for the second time");
    // Numbers run up; a jump costs memory in proportion, within MAX_NUMBER.
    while (r->by_number.len <= number) vec_push(r->arena, &r->by_number, NULL);
    r->by_number.at[number] = r->last;
    return true;
}

static bool read_line(Reader *r) {
    size_t number;
    Op op = OP_COUNT;
    DType dtype = DT_VOID;
    int lanes = 1;
    Nodes src = {0};
    Numbers arg = {0}, shape = {0};
    const char *message = NULL;
    if (!read_number(r, &number)) return false;
    if (!take(r, '=')) return bad(r, "expected =");
    if (!read_op(r, &op) || !read_dtype(r, &dtype, &lanes)) return false;
    if (take(r, '[') && !read_list(r, ']', false, &shape)) return false;
    if (take(r, '(') && !read_sources(r, &src)) return false;
    bool floats = dtype_is_float(dtype) && (op == OP_CONST || op == OP_VCONST);
    if (take(r, '{') && !read_list(r, '}', floats, &arg)) return false;
    if (take(r, '"') && !read_message(r, &message)) return false;
    if (op == OP_POISON) {
        if (!message) return bad(r, "a poison node has a message in quotes");
        r->last = uop_poison(r->g, "%s", message);
    } else if (!make_node(r, op, dtype, lanes, &src, &arg, &shape)) {
        return false;
    }
    return number_node(r, number);
}

UOp *textform_read(Graph *g, Text text, const char *name, Error *err) {
    Reader r = {.g = g,
                .arena = arena_create(),
                .at = text.at,
                .end = text.at + text.len,
                .name = name,
                .err = err};
    bool ok = true;
    while (ok && r.at < r.end) {
        r.line++;
        skip_blanks(&r);
        if (r.at < r.end && *r.at != '\n' && *r.at != '#') ok = read_line(&r);
        skip_blanks(&r);
        if (r.at < r.end && *r.at == '#')
            while (r.at < r.end && *r.at != '\n') r.at++;
        if (ok && r.at < r.end && *r.at++ != '\n')
            r.at--, ok = bad(&r, "expected the end of the line");
    }
    if (ok && !r.last) ok = fail(err, LATHE_BAD_FILE, "%s: no node in this text", name);
    UOp *root = ok ? r.last : NULL;
    arena_destroy(r.arena);
    return root;
}
