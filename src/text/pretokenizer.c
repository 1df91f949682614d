// pretokenizer: runs a row of regexes (PCRE2, compiled to machine code) over text, each within the
// pieces that the one before it left.
// In: any bytes. Out: pieces. Invariant: matching sees only valid UTF-8, checked once for the whole
// text, so that each match costs what it reads.
// Example: DEEPSEEK_CODER cuts "a\nb1" by "[\r\n]" into a, \n, b1, then b1 by "\s?\p{L}+".
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretokenizer.h"
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum { RULES_MAX = 8, JIT_STACK_FIRST = 32 << 10, JIT_STACK_MAX = 64 << 20 };

// Steps that one match may take: the patterns go over a stretch a few times at most, never over its
// square.
enum { STEPS_FIRST = 10000000, STEPS_PER_BYTE = 32 };

#define SPLIT(family, ...) static const char *const patterns_##family[] = {__VA_ARGS__, NULL};
#include "text/pretokenizer.def"

typedef struct PretokenizerRow {
    const char *name;
    const char *const *patterns;
    bool takes_whole_words, adds_bos;
} PretokenizerRow;

static const PretokenizerRow rows[] = {
#define PRETOKENIZER(name, family, whole_words, adds_bos)                                          \
    {name, patterns_##family, whole_words, adds_bos},
#include "text/pretokenizer.def"
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

struct Pretokenizer {
    const PretokenizerRow *row;
    pcre2_code *rules[RULES_MAX];
    int n_rules;
};

// ---- compiling

// White_Space of Unicode, as members of a character class. PCRE2's own \s has U+180E as well, which
// is none.
#define WHITE_SPACE                                                                                \
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}" \
    "\\x{205f}\\x{3000}"

// The pattern with \s and \S spelled out. \S stands only outside of classes.
static const char *pattern_spelled(Arena *arena, const char *pattern) {
    TextBuilder b = builder(arena);
    bool in_class = false;
    for (const char *c = pattern; *c; c++) {
        if (*c == '\\' && c[1] == 's') {
            builder_printf(&b, in_class ? "%s" : "[%s]", WHITE_SPACE);
            c++;
        } else if (*c == '\\' && c[1] == 'S') {
            builder_printf(&b, "[^%s]", WHITE_SPACE);
            c++;
        } else {
            if (*c == '[') in_class = true;
            if (*c == ']') in_class = false;
            builder_char(&b, *c);
            if (*c == '\\' && c[1]) builder_char(&b, *++c);
        }
    }
    return builder_cstr(&b);
}

static bool rule_compile(pcre2_code **out, const char *pattern, Error *err) {
    Arena *arena = arena_create();
    int code;
    PCRE2_SIZE at;
    const char *spelled = pattern_spelled(arena, pattern);
    *out = pcre2_compile((PCRE2_SPTR)spelled, PCRE2_ZERO_TERMINATED,
                         PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY, &code, &at, NULL);
    arena_destroy(arena);
    if (!*out) {
        char text[128];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
        return fail(err, LATHE_UNSUPPORTED,
                    "this PCRE2 library cannot compile the pre-tokenizer's pattern \"%.200s\" "
                    "(at %zu: %s); version 10.36 or newer is needed",
                    pattern, (size_t)at, text);
    }
    pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); // where there is no JIT, pcre2_match interprets
    return true;
}

static const PretokenizerRow *row_find(Text name) {
    for (int i = 0; i < ROW_COUNT; i++)
        if (text_is(name, rows[i].name)) return &rows[i];
    return NULL;
}

static bool unknown_name(Text name, Error *err) {
    Arena *arena = arena_create();
    TextBuilder known = builder(arena);
    for (int i = 0; i < ROW_COUNT; i++) builder_printf(&known, "%s%s", i ? ", " : "", rows[i].name);
    Text shown = utf8_clean(arena, (Text){name.at, name.len < 80 ? name.len : 80});
    fail(err, LATHE_UNSUPPORTED,
         "tokenizer.ggml.pre is '%.*s', a pre-tokenizer that lathe does not know; if it equals a "
         "known one, say so with --override-kv tokenizer.ggml.pre=str:NAME. Known: %s",
         (int)shown.len, shown.at, builder_cstr(&known));
    arena_destroy(arena);
    return false;
}

bool pretokenizer_create(Pretokenizer **out, Text name, Error *err) {
    const PretokenizerRow *row = row_find(name);
    if (!row) return unknown_name(name, err);
    Pretokenizer *p = calloc(1, sizeof *p);
    if (!p) return fail(err, LATHE_NO_MEMORY, "no memory for the pre-tokenizer '%s'", row->name);
    p->row = row;
    for (const char *const *pattern = row->patterns; *pattern; pattern++) {
        CHECK(p->n_rules < RULES_MAX);
        if (!rule_compile(&p->rules[p->n_rules], *pattern, err)) {
            pretokenizer_destroy(p);
            return false;
        }
        p->n_rules++;
    }
    *out = p;
    return true;
}

void pretokenizer_destroy(Pretokenizer *p) {
    if (!p) return;
    for (int i = 0; i < p->n_rules; i++) pcre2_code_free(p->rules[i]);
    free(p);
}

bool pretokenizer_takes_whole_words(const Pretokenizer *p) { return p->row->takes_whole_words; }

bool pretokenizer_adds_bos(const Pretokenizer *p) { return p->row->adds_bos; }

// ---- splitting

typedef struct Split {
    const Pretokenizer *p;
    pcre2_match_data *match[RULES_MAX];
    pcre2_match_context *match_context;
    pcre2_jit_stack *jit_stack;
    PieceFunction piece;
    void *piece_context;
    Error *err;
} Split;

static void split_end(Split *s) {
    for (int i = 0; i < s->p->n_rules; i++) pcre2_match_data_free(s->match[i]);
    pcre2_match_context_free(s->match_context);
    pcre2_jit_stack_free(s->jit_stack);
}

// Match data belong to a call, the compiled rules to all threads. A missing JIT stack only means a
// smaller one.
static bool split_begin(Split *s, size_t nbytes) {
    bool has_all = true;
    for (int i = 0; i < s->p->n_rules; i++)
        has_all &= (s->match[i] = pcre2_match_data_create(1, NULL)) != NULL;
    has_all &= (s->match_context = pcre2_match_context_create(NULL)) != NULL;
    if (!has_all) {
        split_end(s);
        return fail(s->err, LATHE_NO_MEMORY, "no memory for cutting text into words with '%s'",
                    s->p->row->name);
    }
    uint64_t steps = STEPS_FIRST + (uint64_t)nbytes * STEPS_PER_BYTE;
    pcre2_set_match_limit(s->match_context, steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
    s->jit_stack = pcre2_jit_stack_create(JIT_STACK_FIRST, JIT_STACK_MAX, NULL);
    if (s->jit_stack) pcre2_jit_stack_assign(s->match_context, NULL, s->jit_stack);
    return true;
}

static bool match_failed(const Split *s, int code, size_t nbytes) {
    char text[128];
    pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
    return fail(s->err, LATHE_BAD_REQUEST,
                "the pre-tokenizer '%s' gave up on a stretch of %zu bytes of the text (%s); cut "
                "the text into shorter parts",
                s->p->row->name, nbytes, text);
}

// Cuts valid UTF-8 by the rules from number rule on.
static bool split_text(Split *s, int rule, Text text) {
    if (text.len == 0) return true;
    if (rule == s->p->n_rules) return s->piece(s->piece_context, text, s->err);
    for (size_t at = 0, done = 0; done < text.len;) {
        int code = pcre2_match(s->p->rules[rule], (PCRE2_SPTR)text.at, text.len, at,
                               PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, s->match[rule],
                               s->match_context);
        if (code < 0 && code != PCRE2_ERROR_NOMATCH) return match_failed(s, code, text.len);
        const PCRE2_SIZE *found = pcre2_get_ovector_pointer(s->match[rule]);
        size_t begin = code < 0 ? text.len : found[0], end = code < 0 ? text.len : found[1];
        TRY(split_text(s, rule + 1, (Text){text.at + done, begin - done}));
        TRY(split_text(s, rule + 1, (Text){text.at + begin, end - begin}));
        at = done = end;
    }
    return true;
}

// Bytes at the beginning that are valid UTF-8, or (as a negative number) that are not.
static ptrdiff_t run_of(Text text) {
    size_t used, n = 0;
    bool is_valid = utf8_decode(text.at, text.len, &used) >= 0;
    while (n < text.len && (utf8_decode(text.at + n, text.len - n, &used) >= 0) == is_valid)
        n += used;
    return is_valid ? (ptrdiff_t)n : -(ptrdiff_t)n;
}

bool pretokenizer_split(const Pretokenizer *p, Text text, PieceFunction piece, void *context,
                        Error *err) {
    Split s = {.p = p, .piece = piece, .piece_context = context, .err = err};
    TRY(split_begin(&s, text.len));
    bool is_done = true;
    while (text.len && is_done) {
        ptrdiff_t run = run_of(text);
        size_t n = (size_t)(run < 0 ? -run : run);
        Text part = {text.at, n};
        is_done = run < 0 ? piece(context, part, err) : split_text(&s, 0, part);
        text = (Text){text.at + n, text.len - n};
    }
    split_end(&s);
    return is_done;
}
