// jinja_lexer: template text to tokens, with the whitespace rules of trim_blocks and lstrip_blocks.
// In: the source. Out: an array of tokens ended by END; comments and raw blocks are resolved here.
// Invariant: every byte is looked at a bounded number of times; no token points outside the arena
// or the source.
// Rules: a newline right behind %} or #} goes; blanks before {% or {# at the start of a line go; a
// minus sign takes all white space on its side, a plus sign switches both rules off; one newline at
// the very end goes.
// Example: "  {% if x %}\nA" → BLOCK_BEGIN, if, x, BLOCK_END, DATA "A".
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/vec.h"
#include "text/jinja_ast.h"

typedef struct Lexer {
    Arena *arena;
    Error *err;
    const char *at, *end; // not yet read
    int line;
    bool is_line_start; // the last tag swallowed a newline
    VEC(JinjaToken) tokens;
} Lexer;

const char *jinja_token_name(JinjaTokenKind kind) {
    static const char *const names[] = {
#define TOKEN(name, text) text,
        JINJA_TOKENS(TOKEN)
#undef TOKEN
            "in",
        "not in",
    };
    return names[kind];
}

static bool lex_error(Lexer *x, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool lex_error(Lexer *x, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *text = jinja_message(x->arena, format, args);
    va_end(args);
    return fail(x->err, LATHE_BAD_FILE, "chat template, line %d: %s", x->line, text);
}

static JinjaToken *add_token(Lexer *x, JinjaTokenKind kind) {
    JinjaToken token = {.kind = kind, .line = x->line};
    vec_push(x->arena, &x->tokens, token);
    return &x->tokens.at[x->tokens.len - 1];
}

static void add_data(Lexer *x, const char *at, const char *end) {
    if (at < end) add_token(x, JINJA_TOKEN_DATA)->text = (Text){at, (size_t)(end - at)};
}

static void advance(Lexer *x, const char *to) {
    for (; x->at < to; x->at++) x->line += *x->at == '\n';
}

static bool starts_with(const Lexer *x, const char *at, const char *word) {
    size_t n = strlen(word);
    return (size_t)(x->end - at) >= n && memcmp(at, word, n) == 0;
}

static const char *skip_space(const char *at, const char *end) {
    for (size_t used; at < end; at += used)
        if (!jinja_is_space(utf8_decode(at, (size_t)(end - at), &used))) break;
    return at;
}

static const char *trim_right(const char *at, const char *end) {
    const char *last = at; // behind the last character that is no space
    for (size_t used; at < end; at += used)
        if (!jinja_is_space(utf8_decode(at, (size_t)(end - at), &used))) last = at + used;
    return last;
}

// What stays of data before a tag that carries `sign`; blanks at a line's start go where the tag
// strips them.
static const char *strip_before(const Lexer *x, const char *at, const char *end, char sign,
                                bool strips_line) {
    if (sign == '-') return trim_right(at, end);
    if (sign == '+' || !strips_line) return end;
    const char *line = end;
    while (line > at && line[-1] != '\n') line--;
    bool is_line = line > at || x->is_line_start;
    return is_line && trim_right(line, end) == line ? line : end;
}

// Behind an end mark: '-' takes white space, a block's or comment's plain end takes one newline.
static void end_tag(Lexer *x, const char *to, char sign, bool takes_newline) {
    if (sign == '-') to = skip_space(to, x->end);
    else if (sign != '+' && takes_newline && to < x->end && *to == '\n') to++;
    advance(x, to);
    x->is_line_start = to[-1] == '\n';
}

static char sign_at(const Lexer *x, const char *at) {
    return at < x->end && (*at == '-' || *at == '+') ? *at : 0;
}

static bool lex_comment(Lexer *x, const char *body) {
    const char *close = body;
    while (close < x->end && !starts_with(x, close, "#}")) close++;
    if (close == x->end) return lex_error(x, "Missing end of comment tag");
    end_tag(x, close + 2, close > body ? sign_at(x, close - 1) : 0, true);
    return true;
}

// At "{%": reads sign, word and end of a raw or endraw tag; NULL where it is none.
static const char *match_raw(const Lexer *x, const char *at, const char *word, char *sign,
                             char *end_sign) {
    if (!starts_with(x, at, "{%")) return NULL;
    *sign = sign_at(x, at + 2);
    at = skip_space(at + 2 + (*sign != 0), x->end);
    if (!starts_with(x, at, word)) return NULL;
    at = skip_space(at + strlen(word), x->end);
    *end_sign = sign_at(x, at);
    if (*end_sign) at++;
    return starts_with(x, at, "%}") ? at + 2 : NULL;
}

static bool lex_raw(Lexer *x, const char *after_begin, char end_sign) {
    char sign;
    end_tag(x, after_begin, end_sign, false);
    const char *body = x->at;
    for (const char *at = body; at < x->end; at++) {
        const char *after = *at == '{' ? match_raw(x, at, "endraw", &sign, &end_sign) : NULL;
        if (!after) continue;
        const char *end = strip_before(x, body, at, sign, true);
        add_data(x, body, end);
        end_tag(x, after, end_sign, true);
        return true;
    }
    return lex_error(x, "Missing end of raw directive");
}

// ---- inside a tag ----

static bool is_word_char(int32_t c, bool is_first) {
    if (c < 0) return false;
    if (c < 0x80) return c == '_' || isalpha((int)c) || (!is_first && isdigit((int)c));
    utf8proc_category_t category = utf8proc_category(c);
    bool is_letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
    bool is_more = category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_NL;
    return is_letter || (!is_first && is_more);
}

static bool lex_word(Lexer *x) {
    const char *at = x->at;
    size_t used;
    while (at < x->end && is_word_char(utf8_decode(at, (size_t)(x->end - at), &used), at == x->at))
        at += used;
    add_token(x, JINJA_TOKEN_WORD)->text = (Text){x->at, (size_t)(at - x->at)};
    advance(x, at);
    return true;
}

// Digits with single underscores between them, copied to out without these; returns how many bytes
// they took.
static size_t take_digits(const Lexer *x, const char *at, const char *set, char *out, size_t *n) {
    const char *start = at;
    while (at < x->end && *at && *n < 60) {
        if (strchr(set, *at)) out[(*n)++] = *at++;
        else if (*at == '_' && at > start && at + 1 < x->end && at[1] && strchr(set, at[1])) at++;
        else break;
    }
    out[*n] = 0;
    return (size_t)(at - start);
}

static const char decimal_digits[] = "0123456789";

static bool lex_whole(Lexer *x, const char *digits, int base, const char *after) {
    uint64_t value = strtoull(digits, NULL, base);
    if (strlen(digits) > 50 || value > INT64_MAX || (base == 10 && strlen(digits) > 19))
        return lex_error(x, "the integer %.40s does not fit 64 bits", digits);
    add_token(x, JINJA_TOKEN_WHOLE)->whole = (int64_t)value;
    advance(x, after);
    return true;
}

static bool lex_number(Lexer *x) {
    static const struct {
        char letter;
        int base;
        const char *digits;
    } prefixes[] = {{'b', 2, "01"}, {'o', 8, "01234567"}, {'x', 16, "0123456789abcdefABCDEF"}};
    char text[200];
    size_t n = 0;
    for (size_t i = 0; i < 3 && x->at[0] == '0' && x->at + 1 < x->end; i++) {
        if ((x->at[1] | 32) != prefixes[i].letter) continue;
        const char *digits = x->at + 2 + (x->at + 2 < x->end && x->at[2] == '_');
        size_t used = take_digits(x, digits, prefixes[i].digits, text, &n);
        if (n > 0) return lex_whole(x, text, prefixes[i].base, digits + used);
    }
    n = 0;
    const char *at = x->at + take_digits(x, x->at, decimal_digits, text, &n), *whole_end = at;
    size_t n_whole = n;
    bool is_after_dot =
        x->tokens.len > 0 && x->tokens.at[x->tokens.len - 1].kind == JINJA_TOKEN_DOT;
    if (!is_after_dot && at + 1 < x->end && *at == '.' && isdigit((unsigned char)at[1])) {
        text[n++] = '.';
        at += 1 + take_digits(x, at + 1, decimal_digits, text, &n);
    }
    if (!is_after_dot && at < x->end && (*at | 32) == 'e') {
        const char *exponent = at + 1 + (sign_at(x, at + 1) != 0);
        if (exponent < x->end && isdigit((unsigned char)*exponent)) {
            text[n++] = 'e';
            if (exponent[-1] == '-') text[n++] = '-';
            at = exponent + take_digits(x, exponent, decimal_digits, text, &n);
        }
    }
    if (at > whole_end) {
        add_token(x, JINJA_TOKEN_REAL)->real = strtod(text, NULL);
        advance(x, at);
        return true;
    }
    text[n_whole] = 0;
    if (text[0] == '0') // 007 is 00, then 7
        while (at - x->at > 1 && strspn(text, "0") < n_whole) text[--n_whole] = 0, at--;
    return lex_whole(x, text, 10, at);
}

static size_t hex_escape(const char *at, const char *end, size_t n, int32_t *out) {
    char text[9] = "";
    if ((size_t)(end - at) < n) return 0;
    memcpy(text, at, n);
    if (strspn(text, "0123456789abcdefABCDEF") != n) return 0;
    unsigned long value = strtoul(text, NULL, 16);
    if (value > 0x10ffff) return 0;
    *out = (int32_t)value;
    return n;
}

// One escape at "\"; returns the bytes it takes, 0 where it is malformed.
static size_t lex_escape(TextBuilder *b, const char *at, const char *end) {
    static const char plain[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
    char bytes[4];
    int32_t code = 0;
    for (const char *row = plain; *row; row += 2)
        if (at[1] == row[0]) {
            builder_char(b, row[1]);
            return 2;
        }
    if (at[1] == '\n') return 2;
    size_t n_hex = at[1] == 'x' ? 2 : at[1] == 'u' ? 4 : at[1] == 'U' ? 8 : 0;
    if (n_hex > 0) {
        if (!hex_escape(at + 2, end, n_hex, &code)) return 0;
        builder_append(b, bytes, utf8_encode(code, bytes));
        return 2 + n_hex;
    }
    size_t n = 0;
    while (n < 3 && at + 1 + n < end && at[1 + n] >= '0' && at[1 + n] <= '7')
        code = code * 8 + (at[1 + n++] - '0');
    if (n > 0) builder_append(b, bytes, utf8_encode(code, bytes));
    else builder_append(b, at, 2); // an unknown escape stays as it is
    return n > 0 ? 1 + n : 2;
}

static bool lex_text(Lexer *x) {
    const char *at = x->at + 1, *close = at;
    while (close < x->end && *close != *x->at)
        close += *close == '\\' && close + 1 < x->end ? 2 : 1;
    if (close >= x->end) return lex_error(x, "a string begins with %c and does not end", *x->at);
    TextBuilder b = builder(x->arena);
    while (at < close) {
        size_t used = 1;
        if (*at == '\\') used = lex_escape(&b, at, close);
        else builder_char(&b, *at);
        if (used == 0) return lex_error(x, "a malformed \\%c escape in a string", at[1]);
        at += used;
    }
    add_token(x, JINJA_TOKEN_TEXT)->text = builder_view(&b);
    advance(x, close + 1);
    return true;
}

static bool lex_operator(Lexer *x, char *open, size_t *n_open) {
    static const struct {
        JinjaTokenKind kind;
        const char *text;
    } rows[] = {
#define TOKEN(name, text) {JINJA_TOKEN_##name, text},
        JINJA_OPERATORS(TOKEN)
#undef TOKEN
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!starts_with(x, x->at, rows[i].text)) continue;
        char c = *x->at;
        if (strchr("([{", c)) {
            if (*n_open == JINJA_MAX_NESTING)
                return lex_error(x, "more than %d open brackets", JINJA_MAX_NESTING);
            open[(*n_open)++] = c == '(' ? ')' : c == '[' ? ']' : '}';
        } else if (strchr(")]}", c)) {
            if (*n_open == 0) return lex_error(x, "unexpected '%c'", c);
            if (open[--*n_open] != c)
                return lex_error(x, "unexpected '%c', expected '%c'", c, open[*n_open]);
        }
        add_token(x, rows[i].kind);
        advance(x, x->at + strlen(rows[i].text));
        return true;
    }
    return lex_error(x, "unexpected character '%c' (byte 0x%02x)",
                     isprint((unsigned char)*x->at) ? *x->at : '?',
                     (unsigned)(unsigned char)*x->at);
}

static bool lex_inside(Lexer *x, bool is_block) {
    char open[JINJA_MAX_NESTING];
    size_t n_open = 0, used;
    const char *mark = is_block ? "%}" : "}}";
    for (;;) {
        advance(x, skip_space(x->at, x->end));
        if (x->at == x->end) return true; // the parser says what is missing
        char sign = sign_at(x, x->at);
        if (!is_block && sign == '+') sign = 0;
        if (n_open == 0 && starts_with(x, x->at + (sign != 0), mark)) {
            add_token(x, is_block ? JINJA_TOKEN_BLOCK_END : JINJA_TOKEN_PRINT_END);
            end_tag(x, x->at + (sign != 0) + 2, sign, is_block);
            return true;
        }
        if (isdigit((unsigned char)*x->at)) TRY(lex_number(x));
        else if (*x->at == '"' || *x->at == '\'') TRY(lex_text(x));
        else if (is_word_char(utf8_decode(x->at, (size_t)(x->end - x->at), &used), true))
            TRY(lex_word(x));
        else TRY(lex_operator(x, open, &n_open));
    }
}

static bool lex_tag(Lexer *x, const char *data) {
    char kind = x->at[1], sign = sign_at(x, x->at + 2), raw_sign, end_sign;
    const char *raw = match_raw(x, x->at, "raw", &raw_sign, &end_sign);
    add_data(x, data, strip_before(x, data, x->at, sign, kind != '{'));
    if (raw && end_sign != '+') return lex_raw(x, raw, end_sign);
    const char *body = x->at + 2 + (sign != 0);
    if (kind == '#') return lex_comment(x, body);
    add_token(x, kind == '{' ? JINJA_TOKEN_PRINT_BEGIN : JINJA_TOKEN_BLOCK_BEGIN);
    advance(x, body);
    return lex_inside(x, kind == '%');
}

// \r\n and \r become \n, and one newline at the end goes.
static Text normalize_newlines(Arena *arena, Text source) {
    char *out = arena_new(arena, source.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < source.len; i++) {
        if (source.at[i] == '\r' && i + 1 < source.len && source.at[i + 1] == '\n') continue;
        out[n++] = source.at[i] == '\r' ? '\n' : source.at[i];
    }
    if (n > 0 && out[n - 1] == '\n') n--;
    return (Text){out, n};
}

bool jinja_tokenize(Arena *arena, Text source, JinjaToken **out, Error *err) {
    if (source.len > JINJA_MAX_SOURCE)
        return fail(err, LATHE_BAD_FILE, "a chat template of %zu bytes; at most %d are read",
                    source.len, JINJA_MAX_SOURCE);
    Text text = normalize_newlines(arena, source);
    Lexer x = {.arena = arena,
               .err = err,
               .at = text.at,
               .end = text.at + text.len,
               .line = 1,
               .is_line_start = true};
    while (x.at < x.end) {
        const char *data = x.at, *tag = data;
        while (tag < x.end && !(*tag == '{' && tag + 1 < x.end &&
                                (tag[1] == '{' || tag[1] == '%' || tag[1] == '#')))
            tag++;
        advance(&x, tag);
        if (tag == x.end) add_data(&x, data, tag);
        else TRY(lex_tag(&x, data));
    }
    add_token(&x, JINJA_TOKEN_END);
    *out = x.tokens.at;
    return true;
}
