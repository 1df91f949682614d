// jinja_format: "%s" % values and "{}".format(...).
// In: a format and its values. Out: the text; what the values bring keeps its origin.
// Invariant: widths are bounded (jinja_number), fields nest at most once, so a format costs what it
// prints.
// Example: "%-4s|%05.1f" % ("a", 2.5) → "a   |002.5"; "{0[k]:>4}".format({"k": 7}) → "   7".
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "text/jinja_builtins.h"
#include "text/jinja_number.h"

// ---- percent ----

typedef struct Percent {
    JinjaRun *run;
    const char *at, *end;
    JinjaValue values; // all of them
    size_t taken;      // of a tuple, or 1 where the single value is used
    JinjaSpec spec;
} Percent;

static bool next_value(Percent *p, JinjaValue *out) {
    bool is_tuple = p->values.kind == JINJA_TUPLE;
    if (p->taken >= (is_tuple ? p->values.list->len : 1))
        return jinja_fail(p->run, "not enough arguments for format string");
    *out = is_tuple ? p->values.list->at[p->taken] : p->values;
    p->taken++;
    return true;
}

// "(name)": that entry of the mapping.
static bool named_value(Percent *p, JinjaValue *out) {
    const char *close = memchr(p->at, ')', (size_t)(p->end - p->at));
    if (!close) return jinja_fail(p->run, "incomplete format key");
    if (p->values.kind != JINJA_DICT) return jinja_fail(p->run, "format requires a mapping");
    JinjaString name = {.at = p->at + 1, .len = (size_t)(close - p->at - 1)};
    const JinjaEntry *entry = jinja_dict_find(p->run, p->values.dict, jinja_string(&name));
    if (!entry)
        return jinja_fail(p->run, "the mapping has no '%.*s'", (int)(name.len % 100), name.at);
    *out = entry->value;
    p->at = close + 1;
    return true;
}

static bool read_size(Percent *p, int *out) {
    int64_t n = 0;
    if (p->at < p->end && *p->at == '*') {
        JinjaValue v;
        p->at++;
        TRY(next_value(p, &v));
        if (!jinja_is_integer(v, &n)) return jinja_fail(p->run, "* wants int");
        if (n < 0) p->spec.align = '<';
        n = n < 0 ? -n : n;
    }
    while (p->at < p->end && isdigit((unsigned char)*p->at) && n < 100000)
        n = n * 10 + (*p->at++ - '0');
    if (n > 9999 || n < 0)
        return jinja_fail(p->run, "a width or precision beyond 9999 in a format");
    *out = (int)n;
    return true;
}

static bool read_spec(Percent *p) {
    p->spec = (JinjaSpec){.fill = ' ', .align = '>', .precision = -1};
    for (; p->at < p->end && *p->at && strchr("-+ #0", *p->at); p->at++) {
        if (*p->at == '-') p->spec.align = '<';
        else if (*p->at == '#') p->spec.is_alternate = true;
        else if (*p->at == '0') p->spec.fill = '0';
        else if (p->spec.sign != '+') p->spec.sign = *p->at;
    }
    TRY(read_size(p, &p->spec.width));
    if (p->at < p->end && *p->at == '.') {
        p->at++;
        TRY(read_size(p, &p->spec.precision));
    }
    while (p->at < p->end && *p->at && strchr("hlL", *p->at)) p->at++;
    if (p->at == p->end) return jinja_fail(p->run, "incomplete format");
    p->spec.type = *p->at++;
    if (p->spec.align == '<' || !strchr("diuxXoeEfFgG", p->spec.type)) p->spec.fill = ' ';
    if (p->spec.fill == '0') p->spec.align = '=';
    return true;
}

// %d takes any number, cut towards zero.
static bool to_whole(Percent *p, JinjaValue *v) {
    int64_t i;
    if (jinja_is_integer(*v, &i)) return true;
    bool is_decimal = strchr("diu", p->spec.type) != NULL;
    if (v->kind != JINJA_FLOAT || !is_decimal)
        return jinja_fail(p->run, "%%%c format: %s is required, not %s", p->spec.type,
                          is_decimal ? "a real number" : "an integer", jinja_type_name(*v));
    if (!(fabs(v->real) < 9e18)) return jinja_fail(p->run, "an integer beyond 64 bits");
    *v = jinja_int((int64_t)v->real);
    return true;
}

static bool put_whole(Percent *p, JinjaBuilder *b, JinjaValue v) {
    int64_t i;
    TRY(to_whole(p, &v));
    jinja_is_integer(v, &i);
    if (p->spec.precision >= 0) { // at least so many digits
        int width = p->spec.precision + (i < 0 || p->spec.sign);
        if (width > p->spec.width) {
            p->spec.width = width;
            p->spec.fill = '0';
            p->spec.align = '=';
        }
        p->spec.precision = -1;
    }
    if (strchr("diu", p->spec.type)) p->spec.type = 'd';
    return jinja_format_value(b, jinja_int(i), &p->spec);
}

static bool put_value(Percent *p, JinjaBuilder *b, JinjaValue v) {
    double real;
    int64_t whole;
    char type = p->spec.type;
    if (strchr("diuxXo", type)) return put_whole(p, b, v);
    if (strchr("eEfFgG", type)) {
        if (!jinja_is_number(v, &real))
            return jinja_fail(p->run, "must be real number, not %s", jinja_type_name(v));
        return jinja_format_value(b, jinja_float(real), &p->spec);
    }
    p->spec.type = 's';
    p->spec.sign = 0;
    if (type == 'r' || type == 'a') {
        JinjaBuilder repr = jinja_builder(p->run);
        jinja_append_repr(&repr, v);
        TRY(jinja_finish(&repr, &v));
    } else if (type == 'c' && jinja_is_integer(v, &whole)) {
        p->spec.type = 'c';
    } else if (type == 'c' && (v.kind != JINJA_STRING || jinja_char_count(v.string) != 1)) {
        return jinja_fail(p->run, "%%c requires int or char");
    } else if (type != 's' && type != 'c') {
        return jinja_fail(p->run, "unsupported format character '%c'",
                          isprint((unsigned char)type) ? type : '?');
    }
    if (p->spec.type == 's') {
        JinjaString *text;
        TRY(jinja_to_string(p->run, v, &text));
        v = jinja_string(text);
    }
    return jinja_format_value(b, v, &p->spec);
}

bool jinja_percent_format(JinjaRun *run, const JinjaString *format, JinjaValue values,
                          JinjaValue *out) {
    Percent p = {.run = run, .at = format->at, .end = format->at + format->len, .values = values};
    JinjaBuilder b = jinja_builder(run);
    while (p.at < p.end) {
        const char *mark = memchr(p.at, '%', (size_t)(p.end - p.at));
        size_t plain = (size_t)((mark ? mark : p.end) - p.at);
        jinja_append_part(&b, format, (size_t)(p.at - format->at), plain);
        p.at += plain;
        if (!mark) break;
        JinjaValue v = {0};
        TRY(jinja_step(run, 1));
        if (++p.at < p.end && *p.at == '(') TRY(named_value(&p, &v));
        TRY(read_spec(&p));
        if (p.spec.type == '%') {
            jinja_append_part(&b, format, (size_t)(p.at - 1 - format->at), 1);
            continue;
        }
        if (v.kind == JINJA_ABSENT) TRY(next_value(&p, &v));
        TRY(put_value(&p, &b, v));
    }
    // Whatever takes an index may have parts that the format does not ask for.
    bool is_mapping = values.kind == JINJA_DICT || values.kind == JINJA_LIST ||
                      values.kind == JINJA_RANGE || values.kind == JINJA_UNDEFINED;
    size_t given = values.kind == JINJA_TUPLE ? values.list->len : 1;
    if (p.taken < given && !is_mapping)
        return jinja_fail(run, "not all arguments converted during string formatting");
    return jinja_finish(&b, out);
}

// ---- braces ----

typedef struct Braces {
    JinjaRun *run;
    const JinjaArgs *args;
    size_t next;
    bool is_numbered;
} Braces;

static bool field_start(Braces *f, Text name, JinjaValue *out) {
    size_t index = 0;
    bool is_number = name.len > 0 && name.len < 8;
    for (size_t i = 0; i < name.len; i++) {
        is_number = is_number && isdigit((unsigned char)name.at[i]);
        index = index * 10 + (size_t)(name.at[i] - '0');
    }
    if (name.len == 0 || is_number) {
        if (is_number ? f->next > 0 : f->is_numbered)
            return jinja_fail(
                f->run, "cannot switch between automatic field numbering and manual field numbers");
        f->is_numbered |= is_number;
        if (!is_number) index = f->next++;
        if (index >= f->args->n)
            return jinja_fail(
                f->run, "Replacement index %zu out of range for positional args tuple", index);
        *out = f->args->at[index];
        return true;
    }
    for (size_t i = 0; i < f->args->n_keywords; i++) {
        const JinjaKeyword *k = &f->args->keywords[i];
        if (k->name->len != name.len || memcmp(k->name->at, name.at, name.len) != 0) continue;
        *out = k->value;
        return true;
    }
    return jinja_fail(f->run, "format() has no argument '%.*s'", (int)(name.len % 100), name.at);
}

// "0.a[b]" → the value.
static bool field_value(Braces *f, Text field, JinjaValue *out) {
    size_t at = 0;
    while (at < field.len && field.at[at] != '.' && field.at[at] != '[') at++;
    TRY(field_start(f, (Text){field.at, at}, out));
    while (at < field.len) {
        bool is_item = field.at[at++] == '[';
        size_t start = at;
        while (at < field.len &&
               (is_item ? field.at[at] != ']' : field.at[at] != '.' && field.at[at] != '['))
            at++;
        if (at == start || (is_item && at == field.len))
            return jinja_fail(f->run, "Empty attribute in format string");
        JinjaValue key = jinja_text(f->run, field.at + start, at - start, JINJA_TEMPLATE);
        if (is_item) TRY(jinja_get_path(f->run, *out, key, (JinjaValue){0}, out));
        else TRY(jinja_get_attribute(f->run, *out, key.string, out));
        at += is_item;
    }
    return true;
}

// From behind "{": the end of the field, past nested braces.
static const char *field_end(const char *at, const char *end) {
    for (int depth = 1; at < end; at++) {
        depth += (*at == '{') - (*at == '}');
        if (depth == 0) return at;
    }
    return NULL;
}

static bool format_text(Braces *f, const JinjaString *format, int depth, JinjaBuilder *b);

static bool format_field(Braces *f, Text field, int depth, JinjaBuilder *b) {
    size_t name = strcspn(text_cstr(f->run->arena, field), "!:"), at = name;
    JinjaValue value, spec_text = jinja_cstring(f->run, "");
    TRY(field_value(f, (Text){field.at, name}, &value));
    char conversion = 0;
    if (at < field.len && field.at[at] == '!') {
        conversion = at + 1 < field.len ? field.at[at + 1] : 0;
        at += 2;
        if (!conversion || !strchr("rsa", conversion) || (at < field.len && field.at[at] != ':'))
            return jinja_fail(f->run, "Unknown conversion in a format string");
    }
    if (at < field.len) {
        JinjaString raw = {.at = field.at + at + 1, .len = field.len - at - 1};
        JinjaBuilder inner = jinja_builder(f->run);
        if (depth > 0) return jinja_fail(f->run, "Max string recursion exceeded");
        TRY(format_text(f, &raw, depth + 1, &inner));
        TRY(jinja_finish(&inner, &spec_text));
    }
    if (conversion) {
        JinjaBuilder text = jinja_builder(f->run);
        if (conversion == 's') jinja_append_value(&text, value);
        else jinja_append_repr(&text, value);
        TRY(jinja_finish(&text, &value));
    }
    JinjaSpec spec;
    if (spec_text.string->len == 0) {
        jinja_append_value(b, value);
        return !f->run->has_failed;
    }
    TRY(jinja_spec_parse(f->run, (Text){spec_text.string->at, spec_text.string->len}, &spec));
    return jinja_format_value(b, value, &spec);
}

static bool format_text(Braces *f, const JinjaString *format, int depth, JinjaBuilder *b) {
    const char *at = format->at, *end = at + format->len;
    while (at < end) {
        size_t plain = 0;
        while (at + plain < end && at[plain] != '{' && at[plain] != '}') plain++;
        jinja_append_part(b, format, (size_t)(at - format->at), plain);
        at += plain;
        if (at == end) break;
        TRY(jinja_step(f->run, 1));
        if (at + 1 < end && at[1] == *at) {
            jinja_append_part(b, format, (size_t)(at - format->at), 1);
            at += 2;
            continue;
        }
        const char *close = *at == '{' ? field_end(at + 1, end) : NULL;
        if (!close) return jinja_fail(f->run, "Single '%c' encountered in format string", *at);
        TRY(format_field(f, (Text){at + 1, (size_t)(close - at - 1)}, depth, b));
        at = close + 1;
    }
    return !f->run->has_failed;
}

bool jinja_brace_format(JinjaRun *run, const JinjaString *format, const JinjaArgs *args,
                        JinjaValue *out) {
    Braces f = {.run = run, .args = args};
    JinjaBuilder b = jinja_builder(run);
    TRY(format_text(&f, format, 0, &b));
    return jinja_finish(&b, out);
}
