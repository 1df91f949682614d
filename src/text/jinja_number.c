// jinja_number: see the header. The digits come from printf and strtod, which are correctly rounded
// in glibc; this file finds the shortest form and lays it out as Python does (exponent below 1e-4
// and from 1e16 on).
// In: a double or an integer and a JinjaSpec. Out: appended text, padded and grouped.
// Invariant: width and precision are at most JINJA_WIDTH_MAX, so no specification can exhaust
// memory.
#include "text/jinja_number.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JINJA_WIDTH_MAX = 10000, JINJA_PRECISION_MAX = 400, DIGITS_MAX = 800 };

// "d.ddde±xx" of %e → digits without the point, and the decimal exponent.
static int split_exponent(const char *text, char digits[24]) {
    size_t n = 0;
    for (; *text && *text != 'e'; text++)
        if (isdigit((unsigned char)*text)) digits[n++] = *text;
    while (n > 1 && digits[n - 1] == '0') n--;
    digits[n] = 0;
    return *text == 'e' ? atoi(text + 1) : 0;
}

void jinja_float_repr(double f, char out[JINJA_NUMBER_CHARS]) {
    if (isnan(f) || isinf(f)) {
        snprintf(out, JINJA_NUMBER_CHARS, "%s", isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
        return;
    }
    char text[JINJA_NUMBER_CHARS], digits[24];
    for (int precision = 0; precision < 18; precision++) {
        snprintf(text, sizeof text, "%.*e", precision, fabs(f));
        if (strtod(text, NULL) == fabs(f)) break;
    }
    int exponent = split_exponent(text, digits);
    int n = (int)strlen(digits);
    const char *sign = signbit(f) ? "-" : "";
    if (exponent < -4 || exponent >= 16)
        snprintf(out, JINJA_NUMBER_CHARS, "%s%c%s%se%c%02d", sign, digits[0], n > 1 ? "." : "",
                 digits + 1, exponent < 0 ? '-' : '+', abs(exponent));
    else if (exponent < 0)
        snprintf(out, JINJA_NUMBER_CHARS, "%s0.%.*s%s", sign, -exponent - 1, "000", digits);
    else if (n <= exponent + 1)
        snprintf(out, JINJA_NUMBER_CHARS, "%s%s%.*s.0", sign, digits, exponent + 1 - n,
                 "0000000000000000");
    else
        snprintf(out, JINJA_NUMBER_CHARS, "%s%.*s.%s", sign, exponent + 1, digits,
                 digits + exponent + 1);
}

// ---- specifications ----

static bool is_align(int32_t c) { return c == '<' || c == '>' || c == '^' || c == '='; }

static bool spec_number(JinjaRun *run, Text text, size_t *at, int limit, int *out) {
    int64_t n = 0;
    while (*at < text.len && isdigit((unsigned char)text.at[*at])) {
        n = n * 10 + (text.at[(*at)++] - '0');
        if (n > limit)
            return jinja_fail(run, "a width or precision of more than %d in a format", limit);
    }
    *out = (int)n;
    return true;
}

static bool spec_take(Text text, size_t *at, const char *set, char *out) {
    if (*at >= text.len || !text.at[*at] || !strchr(set, text.at[*at])) return false;
    *out = text.at[(*at)++];
    return true;
}

bool jinja_spec_parse(JinjaRun *run, Text text, JinjaSpec *spec) {
    *spec = (JinjaSpec){.fill = ' ', .precision = -1};
    size_t at = 0, used = 0;
    char mark;
    int32_t first = text.len > 0 ? utf8_decode(text.at, text.len, &used) : -1;
    if (first >= 0 && used < text.len && is_align(text.at[used])) {
        spec->fill = first;
        spec->align = text.at[used];
        at = used + 1;
    } else if (first >= 0 && is_align(first)) {
        spec->align = (char)first;
        at = 1;
    }
    spec_take(text, &at, "+- ", &spec->sign);
    spec->is_alternate = spec_take(text, &at, "#", &mark);
    if (spec_take(text, &at, "0", &mark) && !spec->align) {
        spec->fill = '0';
        spec->align = '=';
    }
    TRY(spec_number(run, text, &at, JINJA_WIDTH_MAX, &spec->width));
    spec_take(text, &at, ",_", &spec->group);
    if (spec_take(text, &at, ".", &mark)) {
        if (at >= text.len || !isdigit((unsigned char)text.at[at]))
            return jinja_fail(run, "Format specifier missing precision");
        TRY(spec_number(run, text, &at, JINJA_WIDTH_MAX, &spec->precision));
    }
    if (at < text.len) spec->type = text.at[at++];
    if (at < text.len)
        return jinja_fail(run, "Invalid format specifier '%.*s'", (int)(text.len % 100), text.at);
    return true;
}

// ---- layout ----

static void append_fill(JinjaBuilder *b, int32_t fill, size_t n) {
    while (n-- > 0) jinja_append_code_point(b, fill, JINJA_TEMPLATE);
}

// Thousands separators in the digits before the point, from the right.
static size_t group_digits(const char *digits, char separator, size_t every, char *out) {
    size_t whole = strspn(digits, every == 3 ? "0123456789" : "0123456789abcdefABCDEF"), n = 0;
    for (size_t i = 0; i < whole; i++) {
        if (i > 0 && (whole - i) % every == 0) out[n++] = separator;
        out[n++] = digits[i];
    }
    strcpy(out + n, digits + whole);
    return strlen(out);
}

// A number is sign + prefix + digits; '=' pads between prefix and digits.
static void append_number(JinjaBuilder *b, const JinjaSpec *spec, bool is_negative,
                          const char *prefix, const char *digits) {
    char grouped[DIGITS_MAX + DIGITS_MAX / 3];
    size_t every = spec->type && strchr("bxXo", spec->type) ? 4 : 3;
    size_t n = spec->group ? group_digits(digits, spec->group, every, grouped)
                           : (size_t)snprintf(grouped, sizeof grouped, "%s", digits);
    const char *sign = is_negative ? "-" : spec->sign == '+' ? "+" : spec->sign == ' ' ? " " : "";
    size_t used = strlen(sign) + strlen(prefix) + n;
    size_t pad = (size_t)spec->width > used ? (size_t)spec->width - used : 0;
    char align = spec->align ? spec->align : '>';
    size_t before = align == '>' ? pad : align == '^' ? pad / 2 : 0;
    append_fill(b, spec->fill, before);
    jinja_append_cstring(b, sign);
    jinja_append_cstring(b, prefix);
    if (align == '=') append_fill(b, spec->fill, pad);
    jinja_append(b, grouped, n, JINJA_TEMPLATE);
    append_fill(b, spec->fill, align == '=' ? 0 : pad - before);
}

static void append_padded(JinjaBuilder *b, const JinjaSpec *spec, const JinjaString *s) {
    JinjaString part = *s;
    if (spec->precision >= 0) part.len = jinja_char_offset(s, (size_t)spec->precision);
    size_t used = jinja_char_count(&part);
    size_t pad = (size_t)spec->width > used ? (size_t)spec->width - used : 0;
    size_t before = spec->align == '>' ? pad : spec->align == '^' ? pad / 2 : 0;
    append_fill(b, spec->fill, before);
    jinja_append_string(b, &part);
    append_fill(b, spec->fill, pad - before);
}

static bool format_integer(JinjaBuilder *b, int64_t i, const JinjaSpec *spec) {
    char digits[72], prefix[3] = "";
    uint64_t magnitude = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    if (spec->precision >= 0)
        return jinja_fail(b->run, "Precision not allowed in integer format specifier");
    switch (spec->type) {
    case 'x': snprintf(digits, sizeof digits, "%" PRIx64, magnitude); break;
    case 'X': snprintf(digits, sizeof digits, "%" PRIX64, magnitude); break;
    case 'o': snprintf(digits, sizeof digits, "%" PRIo64, magnitude); break;
    case 'b': {
        int n = 1;
        while (n < 64 && magnitude >> n) n++;
        for (int k = 0; k < n; k++) digits[k] = (char)('0' + (magnitude >> (n - 1 - k) & 1));
        digits[n] = 0;
        break;
    }
    case 'c':
        if (i < 0 || i > 0x10ffff) return jinja_fail(b->run, "%%c arg not in range(0x110000)");
        append_padded(b, spec,
                      &(JinjaString){.at = digits, .len = utf8_encode((int32_t)i, digits)});
        return true;
    default: snprintf(digits, sizeof digits, "%" PRIu64, magnitude);
    }
    if (spec->is_alternate && spec->type && strchr("xXob", spec->type)) {
        prefix[0] = '0';
        prefix[1] = spec->type;
        prefix[2] = 0;
    }
    append_number(b, spec, i < 0, prefix, digits);
    return true;
}

// Without a type: as repr, or as %g with ".0" where a precision is given.
static void plain_float(double f, int precision, char *out, size_t cap) {
    if (precision < 0) {
        jinja_float_repr(f, out);
        return;
    }
    snprintf(out, cap, "%.*g", precision ? precision : 1, f);
    const char *mark = strpbrk(out, ".ein");
    if (!mark && strlen(out) < (size_t)precision) strcat(out, ".0");
}

static bool format_float(JinjaBuilder *b, double f, const JinjaSpec *spec) {
    char digits[DIGITS_MAX], form[8];
    int precision = spec->precision < 0 ? 6 : spec->precision;
    if (precision > JINJA_PRECISION_MAX)
        return jinja_fail(b->run, "a precision of more than %d in a format", JINJA_PRECISION_MAX);
    double magnitude = fabs(f);
    bool is_negative = signbit(f) && !isnan(f);
    if (!spec->type) {
        plain_float(magnitude, spec->precision, digits, sizeof digits);
    } else if (spec->type == '%') {
        snprintf(digits, sizeof digits, "%.*f%%", precision, magnitude * 100);
    } else {
        snprintf(form, sizeof form, "%%%s.*%c", spec->is_alternate ? "#" : "",
                 spec->type == 'n' ? 'g' : spec->type);
        int n = spec->type == 'e' || spec->type == 'E' || spec->type == 'f' || spec->type == 'F' ||
                spec->type == 'g' || spec->type == 'G' || spec->type == 'n';
        if (!n)
            return jinja_fail(b->run, "Unknown format code '%c' for object of type 'float'",
                              spec->type);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(digits, sizeof digits, form, precision, magnitude);
#pragma GCC diagnostic pop
    }
    append_number(b, spec, is_negative, "", digits);
    return true;
}

bool jinja_format_value(JinjaBuilder *b, JinjaValue v, const JinjaSpec *spec) {
    int64_t i;
    double f;
    TRY(jinja_charge(b->run, (size_t)spec->width));
    bool is_text = spec->type == 's',
         wants_integer = spec->type && strchr("bcdoxX", spec->type) != NULL;
    bool is_general = !spec->type || spec->type == 'n';
    if (jinja_is_integer(v, &i) && (wants_integer || is_general))
        return format_integer(b, i, spec) && !b->run->has_failed;
    if (jinja_is_number(v, &f) && !wants_integer && !is_text)
        return format_float(b, f, spec) && !b->run->has_failed;
    if (spec->type && !is_text)
        return jinja_fail(b->run, "Unknown format code '%c' for object of type '%s'", spec->type,
                          jinja_type_name(v));
    JinjaValue text = jinja_soften(b->run, v);
    if (text.kind != JINJA_STRING)
        return jinja_fail(b->run, "unsupported format string passed to %s.__format__",
                          jinja_type_name(v));
    if (spec->sign) return jinja_fail(b->run, "Sign not allowed in string format specifier");
    if (spec->group) return jinja_fail(b->run, "Cannot specify '%c' with 's'.", spec->group);
    append_padded(b, spec, text.string);
    return !b->run->has_failed;
}
