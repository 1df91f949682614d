// jinja_json: values to JSON text, as Python's json.dumps writes it.
// In: a value and a form (indent, separators, ASCII only, sorted keys). Out: appended text.
// Invariant: keys keep their order unless sorted; no HTML escaping.
// Example: {"a": [1, 2.0, none]} → {"a": [1, 2.0, null]}.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/jinja_builtins.h"
#include "text/jinja_number.h"

static bool dump(JinjaBuilder *b, JinjaValue v, const JinjaJsonForm *form, size_t level);

static void dump_escape(JinjaBuilder *b, int32_t c, JinjaOrigin origin) {
    static const char named[] = "\"\"\\\\\nn\rr\tt\ff\bb";
    char text[16];
    for (const char *row = named; *row; row += 2)
        if (c == row[0]) {
            snprintf(text, sizeof text, "\\%c", row[1]);
            jinja_append(b, text, 2, origin);
            return;
        }
    if (c < 0x10000) {
        snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
    } else {
        unsigned rest = (unsigned)c - 0x10000;
        snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + (rest >> 10),
                 0xdc00 + (rest & 0x3ff));
    }
    jinja_append(b, text, strlen(text), origin);
}

static void dump_string(JinjaBuilder *b, const JinjaString *s, bool is_ascii) {
    jinja_append_cstring(b, "\"");
    size_t plain = 0; // start of a run that needs no escape
    for (size_t at = 0, used; at < s->len && !b->run->has_failed; at += used) {
        int32_t c = jinja_char_at(s, at, &used);
        if (c >= 0x20 && c != '"' && c != '\\' && !(is_ascii && c > 0x7e)) continue;
        if (c < 0 && !is_ascii) continue;
        jinja_append_part(b, s, plain, at - plain);
        dump_escape(b, c < 0 ? 0xfffd : c, s->marks ? (JinjaOrigin)s->marks[at] : s->origin);
        plain = at + used;
    }
    jinja_append_part(b, s, plain, s->len - plain);
    jinja_append_cstring(b, "\"");
}

static void dump_number(JinjaBuilder *b, JinjaValue v) {
    char text[JINJA_NUMBER_CHARS];
    if (v.kind == JINJA_INT) snprintf(text, sizeof text, "%" PRId64, v.integer);
    else if (isnan(v.real)) snprintf(text, sizeof text, "NaN");
    else if (isinf(v.real)) snprintf(text, sizeof text, v.real > 0 ? "Infinity" : "-Infinity");
    else jinja_float_repr(v.real, text);
    jinja_append_cstring(b, text);
}

static const char *constant_text(JinjaValue v) {
    return v.kind == JINJA_NONE ? "null" : v.boolean ? "true" : "false";
}

static void dump_newline(JinjaBuilder *b, const JinjaJsonForm *form, size_t level) {
    if (!form->has_indent) return;
    jinja_append_cstring(b, "\n");
    for (size_t i = 0; i < level; i++) jinja_append_string(b, form->indent);
}

static bool dump_list(JinjaBuilder *b, const JinjaList *list, const JinjaJsonForm *form,
                      size_t level) {
    jinja_append_cstring(b, "[");
    for (size_t i = 0; i < list->len; i++) {
        if (i > 0) jinja_append_string(b, form->item_separator);
        dump_newline(b, form, level + 1);
        TRY(dump(b, list->at[i], form, level + 1));
    }
    if (list->len > 0) dump_newline(b, form, level);
    jinja_append_cstring(b, "]");
    return true;
}

static bool dump_key(JinjaBuilder *b, JinjaValue key, const JinjaJsonForm *form) {
    bool is_constant = key.kind == JINJA_NONE || key.kind == JINJA_BOOL;
    if (key.kind == JINJA_STRING) {
        dump_string(b, key.string, form->is_ascii);
        return true;
    }
    if (!is_constant && key.kind != JINJA_INT && key.kind != JINJA_FLOAT)
        return jinja_fail(b->run, "keys must be str, int, float, bool or None, not %s",
                          jinja_type_name(key));
    jinja_append_cstring(b, "\"");
    if (is_constant) jinja_append_cstring(b, constant_text(key));
    else dump_number(b, key);
    jinja_append_cstring(b, "\"");
    return true;
}

static bool dump_dict(JinjaBuilder *b, const JinjaDict *dict, const JinjaJsonForm *form,
                      size_t level) {
    JinjaRun *run = b->run;
    JinjaList *items = jinja_dict_list(run, dict, "items");
    if (form->sorts_keys) {
        JinjaList *keys = jinja_dict_list(run, dict, "keys");
        TRY(!run->has_failed && jinja_sort_values(run, items->at, keys->at, items->len, false));
    }
    TRY(!run->has_failed);
    jinja_append_cstring(b, "{");
    for (size_t i = 0; i < items->len; i++) {
        const JinjaValue *pair = items->at[i].list->at;
        if (i > 0) jinja_append_string(b, form->item_separator);
        dump_newline(b, form, level + 1);
        TRY(dump_key(b, pair[0], form));
        jinja_append_string(b, form->key_separator);
        TRY(dump(b, pair[1], form, level + 1));
    }
    if (items->len > 0) dump_newline(b, form, level);
    jinja_append_cstring(b, "}");
    return true;
}

static bool dump(JinjaBuilder *b, JinjaValue v, const JinjaJsonForm *form, size_t level) {
    TRY(jinja_step(b->run, 1));
    switch (v.kind) {
    case JINJA_NONE:
    case JINJA_BOOL: jinja_append_cstring(b, constant_text(v)); return true;
    case JINJA_INT:
    case JINJA_FLOAT: dump_number(b, v); return true;
    case JINJA_STRING: dump_string(b, v.string, form->is_ascii); return true;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT: break;
    default:
        return jinja_fail(b->run, "Object of type %s is not JSON serializable", jinja_type_name(v));
    }
    TRY(jinja_enter(b->run));
    bool is_good = v.kind == JINJA_DICT ? dump_dict(b, v.dict, form, level)
                                        : dump_list(b, v.list, form, level);
    jinja_leave(b->run);
    return is_good && !b->run->has_failed;
}

bool jinja_to_json(JinjaBuilder *b, JinjaValue v, const JinjaJsonForm *form) {
    return dump(b, v, form, 0);
}
