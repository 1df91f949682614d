// jinja_case: upper, lower and title case, and the characters that strip takes.
// In: strings. Out: strings; each new character has the origin of the one it came from.
// Invariant: one character to one by utf8proc, one to several by the rows of jinja_casing.def, and
// the Greek sigma at a word's end; together str.upper() and str.lower().
// Example: "Straße" → "STRASSE".
#include <string.h>
#include <utf8proc.h>

#include "text/jinja_builtins.h"

typedef struct CasingRow {
    int32_t code_point;
    const char *upper, *title;
} CasingRow;

static const CasingRow casings[] = {
#define CASING(code_point, upper, title) {code_point, upper, title},
#include "text/jinja_casing.def"
#undef CASING
};

static const CasingRow *find_casing(int32_t c) {
    size_t low = 0, high = sizeof casings / sizeof *casings;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (casings[middle].code_point < c) low = middle + 1;
        else high = middle;
    }
    bool is_there = low < sizeof casings / sizeof *casings && casings[low].code_point == c;
    return is_there ? &casings[low] : NULL;
}

static bool is_cased(int32_t c) {
    return c >= 0 && (utf8proc_tolower(c) != c || utf8proc_toupper(c) != c || find_casing(c));
}

enum { CAPITAL_I_DOTTED = 0x130, CAPITAL_SIGMA = 0x3a3, FINAL_SIGMA = 0x3c2, DOT_ABOVE = 0x307 };

// A capital sigma behind a letter and before none becomes the final form.
static bool is_final_sigma(const JinjaString *s, size_t at, size_t used) {
    size_t before = at, n;
    while (before > 0 && ((unsigned char)s->at[--before] & 0xc0) == 0x80) continue;
    bool follows = at > 0 && is_cased(jinja_char_at(s, before, &n));
    bool precedes = at + used < s->len && is_cased(jinja_char_at(s, at + used, &n));
    return follows && !precedes;
}

void jinja_append_case(JinjaBuilder *b, const JinjaString *s, size_t at, JinjaCase to) {
    size_t used;
    int32_t c = jinja_char_at(s, at, &used);
    JinjaOrigin origin = s->marks ? (JinjaOrigin)s->marks[at] : s->origin;
    const CasingRow *row = to != JINJA_LOWER && c >= 0x80 ? find_casing(c) : NULL;
    if (c < 0) {
        jinja_append_part(b, s, at, used);
    } else if (row) {
        const char *text = to == JINJA_UPPER ? row->upper : row->title;
        jinja_append(b, text, strlen(text), origin);
    } else if (to == JINJA_LOWER && c == CAPITAL_SIGMA && is_final_sigma(s, at, used)) {
        jinja_append_code_point(b, FINAL_SIGMA, origin);
    } else if (to == JINJA_LOWER) {
        jinja_append_code_point(b, c == CAPITAL_I_DOTTED ? 'i' : utf8proc_tolower(c), origin);
        if (c == CAPITAL_I_DOTTED) jinja_append_code_point(b, DOT_ABOVE, origin);
    } else {
        jinja_append_code_point(b, to == JINJA_UPPER ? utf8proc_toupper(c) : utf8proc_totitle(c),
                                origin);
    }
}

bool jinja_change_case(JinjaRun *run, const JinjaString *s, JinjaCase to, JinjaValue *out) {
    TRY(jinja_step(run, 1 + s->len / 8));
    JinjaBuilder b = jinja_builder(run);
    for (size_t at = 0, used; at < s->len && !run->has_failed; at += used) {
        jinja_char_at(s, at, &used);
        jinja_append_case(&b, s, at, to);
    }
    TRY(jinja_finish(&b, out));
    out->string->is_safe = s->is_safe;
    return true;
}

bool jinja_ignore_case(JinjaRun *run, JinjaValue v, JinjaValue *out) {
    *out = v;
    return v.kind != JINJA_STRING || jinja_change_case(run, v.string, JINJA_LOWER, out);
}

// chars NULL: white space.
static bool is_stripped(const JinjaString *s, size_t at, size_t *used, const JinjaString *chars) {
    int32_t c = jinja_char_at(s, at, used);
    return chars ? jinja_find(chars, s->at + at, *used, 0) != SIZE_MAX : jinja_is_space(c);
}

JinjaValue jinja_strip(JinjaRun *run, const JinjaString *s, const JinjaString *chars, bool left,
                       bool right) {
    size_t start = 0, end = s->len, used;
    while (left && start < end && is_stripped(s, start, &used, chars)) start += used;
    while (right && end > start) {
        size_t last = end - 1;
        while (last > start && ((unsigned char)s->at[last] & 0xc0) == 0x80) last--;
        if (!is_stripped(s, last, &used, chars) || last + used != end) break;
        end = last;
    }
    jinja_step(run, 1 + (s->len - (end - start)));
    return jinja_slice(run, s, start, end - start);
}
