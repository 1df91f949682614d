// jinja_filters: filters on numbers and text.
// In: the subject, arguments in the order of jinja_filters.def. Out: a value.
// Invariant: text keeps the origin of its bytes through every filter; what a filter can blow up
// (width, indent) is charged before it is made.
// Example: "  a " | trim | upper → "A"; 2.5 | round → 2.0; {"a": 1} | tojson → {"a": 1}.
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "text/jinja_builtins.h"
#include "text/jinja_number.h"

// ---- numbers ----

bool jinja_filter_abs(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    int64_t i;
    double f;
    if (jinja_is_integer(call->self, &i) && i != INT64_MIN) *out = jinja_int(i < 0 ? -i : i);
    else if (jinja_is_number(call->self, &f)) *out = jinja_float(fabs(f));
    else if (call->self.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, call->self);
    else return jinja_fail(run, "bad operand type for abs(): '%s'", jinja_type_name(call->self));
    return true;
}

// Python's int() and float() on text: blanks around, single underscores between digits.
static bool clean_number(const JinjaString *s, char out[64]) {
    size_t from = 0, to = s->len, n = 0;
    while (from < to && isspace((unsigned char)s->at[from])) from++;
    while (to > from && isspace((unsigned char)s->at[to - 1])) to--;
    for (size_t i = from; i < to; i++) {
        bool is_between = i > from && i + 1 < to && isalnum((unsigned char)s->at[i - 1]) &&
                          isalnum((unsigned char)s->at[i + 1]);
        if (s->at[i] == '_' && is_between) continue;
        if (n == 63) return false;
        out[n++] = s->at[i];
    }
    out[n] = 0;
    return n > 0 && strlen(out) == n;
}

static bool text_to_float(const JinjaString *s, double *out) {
    char text[64], *end;
    if (!clean_number(s, text) || strpbrk(text, "xXpP()")) return false;
    *out = strtod(text, &end);
    return *end == 0 && !isspace((unsigned char)text[0]);
}

static bool text_to_int(const JinjaString *s, int64_t base, int64_t *out) {
    char text[64], *end;
    if (!clean_number(s, text)) return false;
    const char *digits = text + (text[0] == '-' || text[0] == '+');
    if (!isalnum((unsigned char)digits[0])) return false;
    if (digits[0] == '0' && strlen(digits) > 2) { // a prefix that says the same as the base
        char mark = (char)tolower((unsigned char)digits[1]);
        bool fits =
            (mark == 'x' && base == 16) || (mark == 'o' && base == 8) || (mark == 'b' && base == 2);
        if (fits) memmove(text + (digits - text), digits + 2, strlen(digits + 2) + 1);
    }
    *out = strtoll(text, &end, (int)base);
    return *end == 0 && *out != INT64_MAX && *out != INT64_MIN;
}

bool jinja_filter_int(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    int64_t base, i;
    double f;
    JinjaValue self = jinja_soften(run, call->self);
    TRY(jinja_arg_int(run, call, 1, 10, &base));
    if (self.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, self);
    if (base < 2 || base > 36) return jinja_fail(run, "int() base must be >= 2 and <= 36");
    *out = call->arg[0].kind == JINJA_ABSENT ? jinja_int(0) : call->arg[0];
    if (jinja_is_integer(self, &i) ||
        (self.kind == JINJA_STRING && text_to_int(self.string, base, &i))) {
        *out = jinja_int(i);
        return true;
    }
    bool is_number =
        self.kind == JINJA_FLOAT || (self.kind == JINJA_STRING && text_to_float(self.string, &f));
    if (self.kind == JINJA_FLOAT) f = self.real;
    if (!is_number || isnan(f)) return true;
    if (fabs(f) >= 9.2e18) return jinja_fail(run, "an integer beyond 64 bits");
    *out = jinja_int((int64_t)f);
    return true;
}

bool jinja_filter_float(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    double f;
    JinjaValue self = jinja_soften(run, call->self);
    if (self.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, self);
    bool is_number =
        jinja_is_number(self, &f) || (self.kind == JINJA_STRING && text_to_float(self.string, &f));
    if (is_number) *out = jinja_float(f);
    else *out = call->arg[0].kind == JINJA_ABSENT ? jinja_float(0) : call->arg[0];
    return true;
}

// Half to even on the exact binary value, by printf; negative digits round to tens.
static double round_common(double f, int64_t precision) {
    char text[400];
    if (precision > 300 || !isfinite(f)) return f;
    if (precision < 0) {
        double unit = pow(10, (double)-precision);
        return nearbyint(f / unit) * unit;
    }
    snprintf(text, sizeof text, "%.*f", (int)(precision > 60 ? 60 : precision), f);
    return strlen(text) + 1 < sizeof text ? strtod(text, NULL) : f;
}

bool jinja_filter_round(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    int64_t precision, i;
    double f;
    JinjaString *method;
    TRY(jinja_arg_int(run, call, 0, 0, &precision));
    TRY(jinja_arg_string(run, call, 1, "common", &method));
    Text name = {method->at, method->len};
    if (call->self.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, call->self);
    if (!jinja_is_number(call->self, &f))
        return jinja_fail(run, "type %s doesn't define __round__ method",
                          jinja_type_name(call->self));
    if (text_is(name, "common")) {
        bool is_whole = jinja_is_integer(call->self, &i);
        if (is_whole)
            *out = precision >= 0 ? jinja_int(i) : jinja_int((int64_t)round_common(f, precision));
        else *out = jinja_float(round_common(f, precision));
        return true;
    }
    bool is_ceil = text_is(name, "ceil");
    if (!is_ceil && !text_is(name, "floor"))
        return jinja_fail(run, "method must be common, ceil or floor");
    double unit = pow(10, (double)precision);
    *out = jinja_float((is_ceil ? ceil(f * unit) : floor(f * unit)) / unit);
    return true;
}

bool jinja_filter_filesizeformat(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    static const char *const units[2][8] = {
        {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"},
        {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}};
    bool is_binary = jinja_arg_is_true(call, 0, false);
    double base = is_binary ? 1024 : 1000, size, unit = base * base;
    bool is_number = jinja_is_number(call->self, &size) ||
                     (call->self.kind == JINJA_STRING && text_to_float(call->self.string, &size));
    char text[64];
    if (!is_number)
        return jinja_fail(run, "filesizeformat() wants a number, not %s",
                          jinja_type_name(call->self));
    if (size == 1) snprintf(text, sizeof text, "1 Byte");
    else if (size < base) snprintf(text, sizeof text, "%.0f Bytes", trunc(size) + 0.0);
    else {
        size_t i = 0;
        for (; i < 7 && size >= unit; i++) unit *= base;
        snprintf(text, sizeof text, "%.1f %s", base * size / unit, units[is_binary][i]);
    }
    JinjaBuilder b = jinja_builder(run);
    jinja_append_cstring(&b, text);
    return jinja_finish(&b, out);
}

// ---- text, character by character ----

bool jinja_filter_upper(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *s;
    return jinja_self_string(run, call, &s) && jinja_change_case(run, s, JINJA_UPPER, out);
}

bool jinja_filter_lower(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *s;
    return jinja_self_string(run, call, &s) && jinja_change_case(run, s, JINJA_LOWER, out);
}

bool jinja_filter_capitalize(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *s;
    TRY(jinja_self_string(run, call, &s));
    TRY(jinja_step(run, 1 + s->len / 8));
    JinjaBuilder b = jinja_builder(run);
    for (size_t at = 0, used; at < s->len && !run->has_failed; at += used) {
        jinja_char_at(s, at, &used);
        jinja_append_case(&b, s, at, at == 0 ? JINJA_TITLE : JINJA_LOWER);
    }
    return jinja_finish(&b, out);
}

// Words begin at the start and behind blanks, hyphens and opening brackets.
bool jinja_filter_title(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *s;
    TRY(jinja_self_string(run, call, &s));
    TRY(jinja_step(run, 1 + s->len / 8));
    JinjaBuilder b = jinja_builder(run);
    bool begins = true;
    for (size_t at = 0, used; at < s->len && !run->has_failed; at += used) {
        int32_t c = jinja_char_at(s, at, &used);
        jinja_append_case(&b, s, at, begins ? JINJA_UPPER : JINJA_LOWER);
        begins = jinja_is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    }
    return jinja_finish(&b, out);
}

bool jinja_filter_trim(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *s, *chars = NULL;
    TRY(jinja_self_string(run, call, &s));
    if (call->arg[0].kind != JINJA_NONE) TRY(jinja_arg_string(run, call, 0, NULL, &chars));
    *out = jinja_strip(run, s, chars, true, true);
    return true;
}

bool jinja_filter_string(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *s;
    TRY(jinja_self_string(run, call, &s));
    *out = jinja_string(s);
    return true;
}

bool jinja_filter_replace(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *s, *old, *with;
    int64_t count;
    TRY(jinja_self_string(run, call, &s));
    TRY(jinja_to_string(run, call->arg[0], &old) && jinja_to_string(run, call->arg[1], &with));
    if (call->arg[2].kind == JINJA_NONE) count = -1;
    else TRY(jinja_arg_int(run, call, 2, -1, &count));
    JinjaBuilder b = jinja_builder(run);
    size_t at = 0, used = 1;
    for (; count != 0 && at <= s->len; count -= count > 0) {
        size_t hit = jinja_find(s, old->at, old->len, at);
        if (hit == SIZE_MAX || !jinja_step(run, 1)) break;
        jinja_append_part(&b, s, at, hit - at);
        jinja_append_string(&b, with);
        at = hit + old->len;
        if (old->len > 0) continue;
        if (at == s->len) break; // "" fits between all characters and at both ends
        jinja_char_at(s, at, &used);
        jinja_append_part(&b, s, at, used);
        at += used;
    }
    jinja_append_part(&b, s, at, s->len - at);
    return jinja_finish(&b, out);
}

bool jinja_filter_center(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *s;
    int64_t width;
    TRY(jinja_self_string(run, call, &s));
    TRY(jinja_arg_int(run, call, 0, 80, &width));
    int64_t pad = width - (int64_t)jinja_char_count(s);
    if (pad < 0) pad = 0;
    TRY(jinja_step(run, (size_t)pad));
    int64_t left = pad / 2 + (pad & width & 1);
    JinjaBuilder b = jinja_builder(run);
    for (int64_t i = 0; i < left && !run->has_failed; i++) jinja_append_cstring(&b, " ");
    jinja_append_string(&b, s);
    for (int64_t i = left; i < pad && !run->has_failed; i++) jinja_append_cstring(&b, " ");
    return jinja_finish(&b, out);
}

static bool is_line_end(int32_t c) {
    return (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

// Python's splitlines: from `at`, the end of the line and (in *next) the start of the following
// one.
static size_t line_end(const JinjaString *s, size_t at, size_t *next) {
    for (size_t used; at < s->len; at += used) {
        if (!is_line_end(jinja_char_at(s, at, &used))) continue;
        *next = at + used + (s->at[at] == '\r' && at + 1 < s->len && s->at[at + 1] == '\n');
        return at;
    }
    *next = s->len;
    return at;
}

bool jinja_filter_indent(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *s, *indent;
    int64_t width = 4;
    if (jinja_soften(run, call->self).kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, call->self);
    if (jinja_soften(run, call->self).kind != JINJA_STRING)
        return jinja_fail(run, "indent() wants a string, not %s", jinja_type_name(call->self));
    TRY(jinja_self_string(run, call, &s));
    if (call->arg[0].kind == JINJA_STRING) {
        indent = call->arg[0].string;
    } else {
        TRY(jinja_arg_int(run, call, 0, 4, &width));
        if (width > 10000) return jinja_fail(run, "an indent of more than 10000 blanks");
        JinjaBuilder blanks = jinja_builder(run);
        for (int64_t i = 0; i < width; i++) jinja_append_cstring(&blanks, " ");
        TRY(jinja_finish(&blanks, out));
        indent = out->string;
    }
    bool on_first = jinja_arg_is_true(call, 1, false), on_blank = jinja_arg_is_true(call, 2, false);
    JinjaBuilder b = jinja_builder(run);
    bool has_more = true;
    // A newline at the very end opens one more, empty line.
    for (size_t at = 0, next, line = 0; has_more && jinja_step(run, 1); at = next, line++) {
        size_t end = line_end(s, at, &next);
        has_more = next > end;
        if (line > 0) jinja_append_cstring(&b, "\n");
        bool is_indented = line == 0 ? on_first : on_blank || end > at;
        if (is_indented) jinja_append_string(&b, indent);
        jinja_append_part(&b, s, at, end - at);
    }
    return jinja_finish(&b, out);
}

bool jinja_string_splitlines(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    const JinjaString *s = call->self.string;
    bool keeps_ends = jinja_arg_is_true(call, 0, false);
    JinjaList *list = jinja_list_new(run, 0);
    for (size_t at = 0, next; at < s->len && jinja_step(run, 1); at = next) {
        size_t end = line_end(s, at, &next);
        jinja_list_push(run, list, jinja_slice(run, s, at, (keeps_ends ? next : end) - at));
    }
    *out = jinja_sequence(JINJA_LIST, list);
    return !run->has_failed;
}

bool jinja_filter_truncate(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *s, *end;
    int64_t length, leeway, n_chars;
    JinjaValue self = jinja_soften(run, call->self);
    TRY(jinja_length(run, self, &n_chars));
    TRY(jinja_arg_int(run, call, 0, 255, &length));
    TRY(jinja_arg_string(run, call, 2, "...", &end));
    if (call->arg[3].kind == JINJA_NONE) leeway = 5;
    else TRY(jinja_arg_int(run, call, 3, 5, &leeway));
    int64_t end_len = (int64_t)jinja_char_count(end);
    if (length < end_len) return jinja_fail(run, "expected length >= %d", (int)end_len);
    if (leeway < 0) return jinja_fail(run, "expected leeway >= 0");
    *out = self;
    if (length > INT32_MAX || n_chars - length <= leeway) return true;
    if (self.kind != JINJA_STRING)
        return jinja_fail(run, "truncate() cuts strings, not %s", jinja_type_name(self));
    s = self.string;
    size_t cut = jinja_char_offset(s, (size_t)(length - end_len)), last = cut;
    if (!jinja_arg_is_true(call, 1, false)) {
        while (last > 0 && s->at[last - 1] != ' ') last--;
        if (last > 0) cut = last - 1;
    }
    JinjaBuilder b = jinja_builder(run);
    jinja_append_part(&b, s, 0, cut);
    jinja_append_string(&b, end);
    return jinja_finish(&b, out);
}

bool jinja_filter_wordcount(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *s;
    int64_t n = 0;
    bool is_inside = false;
    TRY(jinja_self_string(run, call, &s));
    TRY(jinja_step(run, 1 + s->len / 8));
    for (size_t at = 0, used; at < s->len; at += used) {
        int32_t c = jinja_char_at(s, at, &used);
        utf8proc_category_t category = c < 0 ? UTF8PROC_CATEGORY_CN : utf8proc_category(c);
        bool is_word = c == '_' ||
                       (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
                       (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
        n += is_word && !is_inside;
        is_inside = is_word;
    }
    *out = jinja_int(n);
    return true;
}

// ---- escapes ----

bool jinja_escape_html(JinjaRun *run, const JinjaString *s, JinjaValue *out) {
    static const struct {
        char c;
        const char *text;
    } rows[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
    JinjaBuilder b = jinja_builder(run);
    TRY(jinja_step(run, 1 + s->len / 8));
    for (size_t i = 0; i < s->len; i++) {
        const char *text = NULL;
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
            if (s->at[i] == rows[k].c) text = rows[k].text;
        if (text)
            jinja_append(&b, text, strlen(text), s->marks ? (JinjaOrigin)s->marks[i] : s->origin);
        else jinja_append_part(&b, s, i, 1);
    }
    TRY(jinja_finish(&b, out));
    out->string->is_safe = true;
    return true;
}

bool jinja_filter_forceescape(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *s;
    return jinja_self_string(run, call, &s) && jinja_escape_html(run, s, out);
}

bool jinja_filter_escape(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    *out = call->self;
    return (call->self.kind == JINJA_STRING && call->self.string->is_safe) ||
           jinja_filter_forceescape(run, call, out);
}

bool jinja_filter_safe(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *s;
    TRY(jinja_self_string(run, call, &s));
    *out = jinja_slice(run, s, 0, s->len);
    out->string->is_safe = true;
    return true;
}

static void append_url(JinjaBuilder *b, const JinjaString *s, bool is_query) {
    for (size_t i = 0; i < s->len && !b->run->has_failed; i++) {
        unsigned char c = (unsigned char)s->at[i];
        char text[4];
        if (c < 0x80 && (isalnum(c) || strchr("-._~", c) || (c == '/' && !is_query)) && c != 0) {
            jinja_append_part(b, s, i, 1);
            continue;
        }
        snprintf(text, sizeof text, is_query && c == ' ' ? "+" : "%%%02X", c);
        jinja_append(b, text, strlen(text), s->marks ? (JinjaOrigin)s->marks[i] : s->origin);
    }
}

bool jinja_filter_urlencode(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *text;
    JinjaList *pairs = NULL;
    JinjaBuilder b = jinja_builder(run);
    if (call->self.kind == JINJA_DICT) pairs = jinja_dict_list(run, call->self.dict, "items");
    else if (jinja_is_list(call->self)) TRY(jinja_iterate(run, call->self, &pairs));
    if (!pairs) {
        TRY(jinja_self_string(run, call, &text));
        TRY(jinja_step(run, 1 + text->len / 8));
        append_url(&b, text, false);
        return jinja_finish(&b, out);
    }
    for (size_t i = 0; i < pairs->len && !run->has_failed; i++) {
        JinjaList *pair;
        TRY(jinja_iterate(run, pairs->at[i], &pair));
        if (pair->len != 2) return jinja_fail(run, "urlencode() wants pairs");
        if (i > 0) jinja_append_cstring(&b, "&");
        for (size_t k = 0; k < 2; k++) {
            TRY(jinja_to_string(run, pair->at[k], &text));
            if (k > 0) jinja_append_cstring(&b, "=");
            append_url(&b, text, true);
        }
    }
    return jinja_finish(&b, out);
}

// ---- whole values ----

bool jinja_filter_format(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *s;
    const JinjaArgs *args = call->all;
    TRY(jinja_self_string(run, call, &s));
    if (args->n > 0 && args->n_keywords > 0)
        return jinja_fail(run, "can't handle positional and keyword arguments at the same time");
    if (args->n_keywords > 0) {
        JinjaDict *dict = jinja_dict_new(run);
        for (size_t i = 0; i < args->n_keywords; i++)
            TRY(jinja_dict_set(run, dict, jinja_string(args->keywords[i].name),
                               args->keywords[i].value));
        return jinja_percent_format(run, s, jinja_dict_value(dict), out);
    }
    JinjaList *list = jinja_list_new(run, args->n);
    for (size_t i = 0; i < args->n; i++) jinja_list_push(run, list, args->at[i]);
    return jinja_percent_format(run, s, jinja_sequence(JINJA_TUPLE, list), out);
}

bool jinja_filter_default(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    bool is_missing = call->self.kind == JINJA_UNDEFINED ||
                      (jinja_arg_is_true(call, 1, false) && !jinja_is_true(call->self));
    *out = !is_missing                         ? call->self
           : call->arg[0].kind == JINJA_ABSENT ? jinja_cstring(run, "")
                                               : call->arg[0];
    return true;
}

static bool json_indent(JinjaRun *run, JinjaValue v, JinjaJsonForm *form) {
    int64_t width;
    JinjaValue text = v;
    if (v.kind == JINJA_ABSENT || v.kind == JINJA_NONE) return true;
    form->has_indent = true;
    if (jinja_is_integer(v, &width)) {
        if (width > 1000) return jinja_fail(run, "tojson: an indent of more than 1000 blanks");
        JinjaBuilder b = jinja_builder(run);
        for (int64_t i = 0; i < width; i++) jinja_append_cstring(&b, " ");
        TRY(jinja_finish(&b, &text));
    }
    if (text.kind != JINJA_STRING)
        return jinja_fail(run, "tojson: indent must be a number or a string");
    form->indent = text.string;
    return true;
}

bool jinja_filter_tojson(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaJsonForm form = {.is_ascii = jinja_arg_is_true(call, 0, false),
                          .sorts_keys = jinja_arg_is_true(call, 3, false)};
    TRY(json_indent(run, call->arg[1], &form));
    form.item_separator = jinja_cstring(run, form.has_indent ? "," : ", ").string;
    form.key_separator = jinja_cstring(run, ": ").string;
    JinjaValue separators = call->arg[2];
    if (separators.kind != JINJA_ABSENT && separators.kind != JINJA_NONE) {
        bool is_pair = (separators.kind == JINJA_LIST || separators.kind == JINJA_TUPLE) &&
                       separators.list->len == 2;
        if (!is_pair || separators.list->at[0].kind != JINJA_STRING ||
            separators.list->at[1].kind != JINJA_STRING)
            return jinja_fail(run, "tojson: separators must be a pair of strings");
        form.item_separator = separators.list->at[0].string;
        form.key_separator = separators.list->at[1].string;
    }
    JinjaBuilder b = jinja_builder(run);
    TRY(jinja_to_json(&b, call->self, &form));
    TRY(jinja_finish(&b, out));
    if (!jinja_has_data(call->self)) return true;
    // One piece of data: its punctuation is no format of the template's either.
    *out = jinja_text(run, out->string->at, out->string->len, JINJA_DATA);
    return true;
}
