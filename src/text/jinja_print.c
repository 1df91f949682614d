// jinja_print: building strings that know where their bytes come from, and str() and repr() of
// every value.
// In: bytes with an origin, values. Out: JinjaStrings.
// Invariant: a builder appends nothing once the rendering failed or its byte budget is spent;
// jinja_finish tells.
// Example: "<|" (template) + "user" (data) → at "<|user", marks 0 0 1 1 1 1.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#include "text/jinja_number.h"
#include "text/jinja_value.h"

static bool buffer_reserve(JinjaRun *run, JinjaBuffer *buffer, size_t n) {
    if (run->has_failed) return false;
    if (n <= buffer->cap - buffer->len) return true;
    size_t cap = (buffer->len + n) * 2;
    if (cap < 48) cap = 48;
    TRY(jinja_charge(run, buffer->marks ? cap * 2 : cap));
    char *at = arena_new(run->arena, cap);
    if (buffer->len > 0) memcpy(at, buffer->at, buffer->len);
    if (buffer->marks) {
        uint8_t *marks = arena_new(run->arena, cap);
        memcpy(marks, buffer->marks, buffer->len);
        buffer->marks = marks;
    }
    buffer->at = at;
    buffer->cap = cap;
    return true;
}

// Marks become necessary with the first byte of another origin.
static bool buffer_mark(JinjaRun *run, JinjaBuffer *buffer) {
    if (buffer->marks) return true;
    TRY(jinja_charge(run, buffer->cap));
    buffer->marks = arena_new(run->arena, buffer->cap);
    memset(buffer->marks, (int)buffer->origin, buffer->len);
    return true;
}

static void buffer_put(JinjaRun *run, JinjaBuffer *buffer, const char *at, size_t len,
                       const uint8_t *marks, JinjaOrigin origin) {
    if (len == 0 || !buffer_reserve(run, buffer, len)) return;
    if (buffer->len == 0 && !buffer->marks) buffer->origin = origin;
    if ((marks || origin != buffer->origin) && !buffer_mark(run, buffer)) return;
    memcpy(buffer->at + buffer->len, at, len);
    if (buffer->marks && marks) memcpy(buffer->marks + buffer->len, marks, len);
    else if (buffer->marks) memset(buffer->marks + buffer->len, (int)origin, len);
    buffer->len += len;
}

JinjaBuilder jinja_builder(JinjaRun *run) {
    return (JinjaBuilder){run, arena_new(run->arena, sizeof(JinjaBuffer))};
}

void jinja_append(JinjaBuilder *b, const char *at, size_t len, JinjaOrigin origin) {
    buffer_put(b->run, b->buffer, at, len, NULL, origin);
}

void jinja_append_cstring(JinjaBuilder *b, const char *cstr) {
    jinja_append(b, cstr, strlen(cstr), JINJA_TEMPLATE);
}

void jinja_append_part(JinjaBuilder *b, const JinjaString *s, size_t start, size_t len) {
    buffer_put(b->run, b->buffer, s->at + start, len, s->marks ? s->marks + start : NULL,
               s->origin);
}

void jinja_append_string(JinjaBuilder *b, const JinjaString *s) {
    jinja_append_part(b, s, 0, s->len);
}

void jinja_append_code_point(JinjaBuilder *b, int32_t code_point, JinjaOrigin origin) {
    char bytes[4];
    jinja_append(b, bytes, utf8_encode(code_point, bytes), origin);
}

static JinjaValue buffer_string(JinjaRun *run, JinjaBuffer *buffer) {
    JinjaString *s = arena_new(run->arena, sizeof *s);
    *s = (JinjaString){.at = buffer->len ? buffer->at : "",
                       .len = buffer->len,
                       .marks = buffer->marks,
                       .origin = buffer->origin,
                       .buffer = buffer};
    return jinja_string(s);
}

bool jinja_finish(JinjaBuilder *b, JinjaValue *out) {
    if (b->run->has_failed) return false;
    *out = buffer_string(b->run, b->buffer);
    return true;
}

bool jinja_concat(JinjaRun *run, const JinjaString *a, const JinjaString *b, JinjaValue *out) {
    if (run->has_failed) return false;
    JinjaBuffer *buffer = a->buffer;
    bool ends_there = buffer && a->len > 0 && a->at + a->len == buffer->at + buffer->len;
    if (!ends_there || b->len > buffer->cap - buffer->len) {
        JinjaBuilder builder = jinja_builder(run);
        if (!buffer_reserve(run, builder.buffer, a->len + b->len)) return false;
        jinja_append_string(&builder, a);
        jinja_append_string(&builder, b);
        return jinja_finish(&builder, out);
    }
    size_t start = (size_t)(a->at - buffer->at);
    buffer_put(run, buffer, b->at, b->len, b->marks, b->origin);
    TRY(!run->has_failed);
    *out = buffer_string(run, buffer);
    out->string->at += start;
    out->string->len -= start;
    if (out->string->marks) out->string->marks += start;
    return true;
}

JinjaOrigin jinja_origin(const JinjaString *s) {
    if (!s->marks) return s->origin;
    return memchr(s->marks, JINJA_DATA, s->len) ? JINJA_DATA : JINJA_TEMPLATE;
}

static bool has_data_within(JinjaValue v, int levels) {
    if (v.kind == JINJA_STRING) return jinja_origin(v.string) == JINJA_DATA;
    if (levels == 0) return true;
    if (jinja_is_list(v)) {
        for (size_t i = 0; i < v.list->len; i++)
            if (has_data_within(v.list->at[i], levels - 1)) return true;
    } else if (v.kind == JINJA_DICT) {
        for (size_t i = 0; i < v.dict->len; i++)
            if (has_data_within(v.dict->at[i].key, levels - 1) ||
                has_data_within(v.dict->at[i].value, levels - 1))
                return true;
    }
    return false;
}

bool jinja_has_data(JinjaValue v) { return has_data_within(v, 4); }

// ---- repr ----

// As str.isprintable(): a space, or neither control, format, surrogate, private, unassigned nor
// separator.
static bool is_printable(int32_t code_point) {
    if (code_point == ' ') return true;
    switch (utf8proc_category(code_point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
    }
}

static void append_escape(JinjaBuilder *b, int32_t c, JinjaOrigin origin) {
    char text[16];
    static const char named[] = "\tt\nn\rr\\\\";
    for (const char *at = named; *at; at += 2)
        if (c == at[0]) {
            snprintf(text, sizeof text, "\\%c", at[1]);
            jinja_append(b, text, strlen(text), origin);
            return;
        }
    snprintf(text, sizeof text,
             c < 0x100     ? "\\x%02x"
             : c < 0x10000 ? "\\u%04x"
                           : "\\U%08x",
             (unsigned)c);
    jinja_append(b, text, strlen(text), origin);
}

static void append_string_repr(JinjaBuilder *b, const JinjaString *s) {
    bool has_single = memchr(s->at, '\'', s->len) != NULL;
    char quote = has_single && !memchr(s->at, '"', s->len) ? '"' : '\'';
    jinja_append(b, &quote, 1, JINJA_TEMPLATE);
    for (size_t at = 0, used; at < s->len && !b->run->has_failed; at += used) {
        int32_t c = jinja_char_at(s, at, &used);
        JinjaOrigin origin = s->marks ? (JinjaOrigin)s->marks[at] : s->origin;
        if (c == quote) jinja_append(b, "\\", 1, origin);
        if (c == '\\' || (c >= 0 && !is_printable(c))) append_escape(b, c, origin);
        else jinja_append_part(b, s, at, used);
    }
    jinja_append(b, &quote, 1, JINJA_TEMPLATE);
}

static void append_items(JinjaBuilder *b, const JinjaList *list, const char *open,
                         const char *close) {
    jinja_append_cstring(b, open);
    for (size_t i = 0; i < list->len && !b->run->has_failed; i++) {
        if (i > 0) jinja_append_cstring(b, ", ");
        jinja_append_repr(b, list->at[i]);
    }
    jinja_append_cstring(b, close);
}

static void append_dict(JinjaBuilder *b, const JinjaDict *dict) {
    jinja_append_cstring(b, "{");
    for (size_t i = 0; i < dict->len && !b->run->has_failed; i++) {
        if (i > 0) jinja_append_cstring(b, ", ");
        jinja_append_repr(b, dict->at[i].key);
        jinja_append_cstring(b, ": ");
        jinja_append_repr(b, dict->at[i].value);
    }
    jinja_append_cstring(b, "}");
}

static void append_range(JinjaBuilder *b, const JinjaList *r) {
    char text[96];
    int n = snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64, r->start, r->stop);
    if (r->step != 1) n += snprintf(text + n, sizeof text - (size_t)n, ", %" PRId64, r->step);
    jinja_append(b, text, (size_t)n, JINJA_TEMPLATE);
    jinja_append_cstring(b, ")");
}

static void append_scalar(JinjaBuilder *b, JinjaValue v) {
    char text[JINJA_NUMBER_CHARS];
    if (v.kind == JINJA_INT) snprintf(text, sizeof text, "%" PRId64, v.integer);
    else if (v.kind == JINJA_FLOAT) jinja_float_repr(v.real, text);
    else
        snprintf(text, sizeof text, "%s",
                 v.kind == JINJA_NONE ? "None"
                 : v.boolean          ? "True"
                                      : "False");
    jinja_append_cstring(b, text);
}

static void append_view(JinjaBuilder *b, const JinjaList *list) {
    jinja_append_cstring(b, list->type_name);
    append_items(b, list, "([", "])");
}

static void append_compound(JinjaBuilder *b, JinjaValue v) {
    switch (v.kind) {
    case JINJA_LIST: append_items(b, v.list, "[", "]"); break;
    case JINJA_TUPLE: append_items(b, v.list, "(", v.list->len == 1 ? ",)" : ")"); break;
    case JINJA_VIEW: append_view(b, v.list); break;
    case JINJA_RANGE: append_range(b, v.list); break;
    case JINJA_DICT: append_dict(b, v.dict); break;
    case JINJA_NAMESPACE:
        jinja_append_cstring(b, "<Namespace ");
        append_dict(b, v.dict);
        jinja_append_cstring(b, ">");
        break;
    default:
        jinja_append_cstring(b, "<");
        jinja_append_cstring(b, jinja_type_name(v));
        jinja_append_cstring(b, " object>");
    }
}

void jinja_append_repr(JinjaBuilder *b, JinjaValue v) {
    if (!jinja_step(b->run, 1)) return;
    switch (v.kind) {
    case JINJA_ABSENT: break;
    case JINJA_UNDEFINED: jinja_append_cstring(b, "Undefined"); break;
    case JINJA_NONE:
    case JINJA_BOOL:
    case JINJA_INT:
    case JINJA_FLOAT: append_scalar(b, v); break;
    case JINJA_STRING:
        if (v.string->is_safe) jinja_append_cstring(b, "Markup(");
        append_string_repr(b, v.string);
        if (v.string->is_safe) jinja_append_cstring(b, ")");
        break;
    default:
        if (!jinja_enter(b->run)) return;
        append_compound(b, v);
        jinja_leave(b->run);
    }
}

void jinja_append_value(JinjaBuilder *b, JinjaValue v) {
    v = jinja_soften(b->run, v);
    if (v.kind == JINJA_STRING) jinja_append_string(b, v.string);
    else if (v.kind != JINJA_UNDEFINED) jinja_append_repr(b, v);
}

bool jinja_to_string(JinjaRun *run, JinjaValue v, JinjaString **out) {
    v = jinja_soften(run, v);
    if (v.kind != JINJA_STRING) {
        JinjaBuilder b = jinja_builder(run);
        jinja_append_value(&b, v);
        TRY(jinja_finish(&b, &v));
    }
    *out = v.string;
    return true;
}

// ---- characters ----

int32_t jinja_char_at(const JinjaString *s, size_t offset, size_t *used) {
    if ((unsigned char)s->at[offset] < 0x80) {
        *used = 1;
        return s->at[offset];
    }
    int32_t c = utf8_decode(s->at + offset, s->len - offset, used);
    if (c < 0) *used = 1;
    return c;
}

size_t jinja_char_count(const JinjaString *s) {
    size_t n = 0;
    for (size_t at = 0, used; at < s->len; at += used, n++) jinja_char_at(s, at, &used);
    return n;
}

size_t jinja_char_offset(const JinjaString *s, size_t index) {
    size_t at = 0;
    for (size_t used; index > 0 && at < s->len; at += used, index--) jinja_char_at(s, at, &used);
    return at;
}

bool jinja_is_space(int32_t c) {
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

size_t jinja_find(const JinjaString *s, const char *part, size_t part_len, size_t from) {
    if (from > s->len || part_len > s->len - from) return SIZE_MAX;
    if (part_len == 0) return from;
    for (size_t last = s->len - part_len; from <= last; from++) {
        const char *hit = memchr(s->at + from, part[0], last - from + 1);
        if (!hit) return SIZE_MAX;
        from = (size_t)(hit - s->at);
        if (memcmp(hit, part, part_len) == 0) return from;
    }
    return SIZE_MAX;
}
