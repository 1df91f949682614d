// jinja_access: a.name, a[key] and a[from:to:step], by the rules of jinja2 on Python's types.
// In: a value and a name, key or bounds. Out: what is there, or an undefined value that knows what
// was missing.
// Invariant: a.name looks for a method or field first and an item second; a["name"] the other way
// round.
// Example: {"items": 1}.items is the method, {"items": 1}["items"] is 1.
#include <string.h>

#include "text/jinja_builtins.h"
#include "text/jinja_eval.h"

// ---- loop.* ----

static JinjaValue loop_neighbour(JinjaRun *run, const JinjaLoop *loop, bool is_next) {
    if (is_next && loop->index0 + 1 < loop->items->len) return loop->items->at[loop->index0 + 1];
    if (!is_next && loop->index0 > 0) return loop->items->at[loop->index0 - 1];
    JinjaValue none = jinja_undefined(run, (JinjaValue){0}, jinja_none(), false);
    none.missing->message = is_next ? "there is no next item" : "there is no previous item";
    return none;
}

static bool loop_field(JinjaRun *run, const JinjaLoop *loop, Text name, JinjaValue *out) {
    int64_t index0 = (int64_t)loop->index0, length = (int64_t)loop->items->len;
    const struct {
        const char *name;
        JinjaValue value;
    } fields[] = {
        {"index", jinja_int(index0 + 1)},
        {"index0", jinja_int(index0)},
        {"revindex", jinja_int(length - index0)},
        {"revindex0", jinja_int(length - index0 - 1)},
        {"first", jinja_bool(index0 == 0)},
        {"last", jinja_bool(index0 + 1 == length)},
        {"length", jinja_int(length)},
        {"depth", jinja_int(loop->depth0 + 1)},
        {"depth0", jinja_int(loop->depth0)},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (text_is(name, fields[i].name)) {
            *out = fields[i].value;
            return true;
        }
    bool is_next = text_is(name, "nextitem");
    if (!is_next && !text_is(name, "previtem")) return false;
    *out = loop_neighbour(run, loop, is_next);
    return true;
}

static bool macro_field(JinjaRun *run, const JinjaMacro *macro, Text name, JinjaValue *out) {
    const JinjaNode *node = macro->node;
    if (text_is(name, "name")) {
        *out = jinja_string((JinjaString *)(uintptr_t)node->name);
    } else if (text_is(name, "arguments")) {
        JinjaList *list = jinja_list_new(run, node->list.len);
        for (size_t i = 0; i < node->list.len; i++)
            jinja_list_push(run, list,
                            jinja_string((JinjaString *)(uintptr_t)node->list.at[i]->name));
        *out = jinja_sequence(JINJA_TUPLE, list);
    } else if (text_is(name, "caller") || text_is(name, "catch_varargs") ||
               text_is(name, "catch_kwargs")) {
        *out = jinja_bool(name.len == 6    ? node->uses_caller
                          : name.len == 13 ? node->uses_varargs
                                           : node->uses_kwargs);
    } else {
        return false;
    }
    return true;
}

// ---- fields and methods ----

static bool find_field(JinjaRun *run, JinjaValue of, const JinjaString *name, JinjaValue *out) {
    Text key = {name->at, name->len};
    if (of.kind == JINJA_LOOP && loop_field(run, of.loop, key, out)) return true;
    if (of.kind == JINJA_MACRO && macro_field(run, of.macro, key, out)) return true;
    if (of.kind == JINJA_CYCLER && text_is(key, "current")) {
        *out = of.cycler->at[of.cycler->position % of.cycler->len];
        return true;
    }
    if (of.kind == JINJA_TUPLE && of.list->type_name &&
        (text_is(key, "grouper") || text_is(key, "list"))) {
        *out = of.list->at[key.at[0] == 'l'];
        return true;
    }
    if (of.kind == JINJA_NAMESPACE) {
        const JinjaEntry *entry =
            jinja_dict_find(run, of.dict, jinja_string((JinjaString *)(uintptr_t)name));
        if (entry) *out = entry->value;
        return entry != NULL;
    }
    const JinjaBuiltinRow *row = jinja_find_method(of.kind, key);
    if (!row) return false;
    JinjaBound *bound = arena_new(run->arena, sizeof *bound);
    *bound = (JinjaBound){row, of};
    *out = (JinjaValue){.kind = JINJA_METHOD, .bound = bound};
    return true;
}

// An index as Python counts it, from either end.
static bool wrap_index(int64_t index, size_t len, size_t *out) {
    if (index < 0) index += (int64_t)len;
    if (index < 0 || index >= (int64_t)len) return false;
    *out = (size_t)index;
    return true;
}

static bool find_item(JinjaRun *run, JinjaValue of, JinjaValue key, JinjaValue *out) {
    int64_t index;
    size_t at, used;
    if (of.kind == JINJA_DICT) {
        const JinjaEntry *entry = jinja_dict_find(run, of.dict, key);
        if (entry) *out = entry->value;
        return entry != NULL;
    }
    if (!jinja_is_integer(key, &index)) return false;
    if (of.kind == JINJA_STRING) {
        if (!jinja_step(run, 1 + of.string->len / 64)) return false;
        if (!wrap_index(index, jinja_char_count(of.string), &at)) return false;
        at = jinja_char_offset(of.string, at);
        jinja_char_at(of.string, at, &used);
        *out = jinja_slice(run, of.string, at, used);
        return true;
    }
    bool has_index = of.kind == JINJA_LIST || of.kind == JINJA_TUPLE || of.kind == JINJA_RANGE;
    if (!has_index || !wrap_index(index, of.list->len, &at)) return false;
    *out = of.list->at[at];
    return true;
}

// A null content or a list of parts answers as the text it stands for, where itself has no answer.
static bool find_soft_field(JinjaRun *run, JinjaValue of, const JinjaString *name,
                            JinjaValue *out) {
    JinjaValue soft = jinja_soften(run, of);
    return soft.kind != of.kind && find_field(run, soft, name, out);
}

bool jinja_get_attribute(JinjaRun *run, JinjaValue of, const JinjaString *name, JinjaValue *out) {
    JinjaValue key = jinja_string((JinjaString *)(uintptr_t)name);
    if (of.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, of);
    if (!find_field(run, of, name, out) && !find_item(run, of, key, out) &&
        !find_soft_field(run, of, name, out))
        *out = jinja_undefined(run, of, key, false);
    return !run->has_failed;
}

bool jinja_get_item(JinjaRun *run, JinjaValue of, JinjaValue key, JinjaValue *out) {
    if (of.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, of);
    if (find_item(run, of, key, out)) return !run->has_failed;
    bool is_name = key.kind == JINJA_STRING;
    if (is_name &&
        (find_field(run, of, key.string, out) || find_soft_field(run, of, key.string, out)))
        return !run->has_failed;
    *out = jinja_undefined(run, of, key, !is_name);
    return !run->has_failed;
}

static bool path_step(JinjaRun *run, JinjaValue of, JinjaValue key, JinjaValue fallback,
                      JinjaValue *out) {
    TRY(jinja_get_item(run, of, key, out));
    if (out->kind == JINJA_UNDEFINED && fallback.kind != JINJA_ABSENT) *out = fallback;
    return true;
}

bool jinja_get_path(JinjaRun *run, JinjaValue of, JinjaValue path, JinjaValue fallback,
                    JinjaValue *out) {
    *out = of;
    if (path.kind != JINJA_STRING) return path_step(run, of, path, fallback, out);
    for (size_t at = 0, end; at <= path.string->len; at = end + 1) {
        end = jinja_find(path.string, ".", 1, at);
        if (end == SIZE_MAX) end = path.string->len;
        JinjaValue part = jinja_slice(run, path.string, at, end - at);
        int64_t index = 0;
        size_t n = 0;
        for (; n < part.string->len && n < 18 && part.string->at[n] >= '0' &&
               part.string->at[n] <= '9';
             n++)
            index = index * 10 + (part.string->at[n] - '0');
        if (n > 0 && n == part.string->len) part = jinja_int(index);
        TRY(path_step(run, *out, part, fallback, out));
    }
    return true;
}

// ---- slices ----

static bool slice_bound(JinjaRun *run, JinjaValue v, int64_t len, int64_t low, int64_t high,
                        int64_t fallback, int64_t *out) {
    if (v.kind == JINJA_ABSENT || v.kind == JINJA_NONE) {
        *out = fallback;
        return true;
    }
    if (!jinja_is_integer(v, out))
        return jinja_fail(run, "slice indices must be integers or None, not %s",
                          jinja_type_name(v));
    if (*out < 0) *out = *out < -len ? low : *out + len;
    if (*out < low) *out = low;
    if (*out > high) *out = high;
    return true;
}

typedef struct Slice {
    int64_t start, stop, step;
} Slice;

static bool slice_resolve(JinjaRun *run, const JinjaValue part[3], size_t length, Slice *s) {
    int64_t len = (int64_t)length;
    s->step = 1;
    if (part[2].kind != JINJA_ABSENT && part[2].kind != JINJA_NONE &&
        !jinja_is_integer(part[2], &s->step))
        return jinja_fail(run, "slice indices must be integers or None, not %s",
                          jinja_type_name(part[2]));
    if (s->step == 0) return jinja_fail(run, "slice step cannot be zero");
    if (s->step > len) s->step = len + 1; // no larger step differs, and sums stay small
    if (s->step < -len) s->step = -len - 1;
    bool is_back = s->step < 0;
    TRY(slice_bound(run, part[0], len, is_back ? -1 : 0, is_back ? len - 1 : len,
                    is_back ? len - 1 : 0, &s->start));
    return slice_bound(run, part[1], len, is_back ? -1 : 0, is_back ? len - 1 : len,
                       is_back ? -1 : len, &s->stop);
}

static bool slice_string(JinjaRun *run, const JinjaString *s, const JinjaValue part[3],
                         JinjaValue *out) {
    Slice slice;
    TRY(jinja_step(run, 1 + s->len / 32));
    TRY(slice_resolve(run, part, jinja_char_count(s), &slice));
    if (slice.step == 1) {
        size_t from = jinja_char_offset(s, (size_t)slice.start);
        size_t n = slice.stop > slice.start ? (size_t)(slice.stop - slice.start) : 0;
        JinjaString rest = *s;
        rest.at += from;
        rest.len -= from;
        *out = jinja_slice(run, s, from, jinja_char_offset(&rest, n));
        return true;
    }
    JinjaList *chars;
    TRY(jinja_iterate(run, jinja_string((JinjaString *)(uintptr_t)s), &chars));
    JinjaBuilder b = jinja_builder(run);
    for (int64_t i = slice.start; slice.step < 0 ? i > slice.stop : i < slice.stop; i += slice.step)
        jinja_append_string(&b, chars->at[i].string);
    return jinja_finish(&b, out);
}

bool jinja_get_slice(JinjaRun *run, JinjaValue of, const JinjaValue part[3], JinjaValue *out) {
    if (of.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, of);
    if (of.kind == JINJA_NONE) of = jinja_soften(run, of);
    if (of.kind == JINJA_STRING) return slice_string(run, of.string, part, out);
    if (of.kind != JINJA_LIST && of.kind != JINJA_TUPLE && of.kind != JINJA_RANGE)
        return jinja_fail(run, "'%s' object cannot be sliced", jinja_type_name(of));
    Slice slice;
    TRY(slice_resolve(run, part, of.list->len, &slice));
    JinjaList *list = jinja_list_new(run, 0);
    for (int64_t i = slice.start; slice.step < 0 ? i > slice.stop : i < slice.stop;
         i += slice.step) {
        TRY(jinja_step(run, 1));
        jinja_list_push(run, list, of.list->at[i]);
    }
    if (of.kind == JINJA_RANGE) {
        uint64_t start = (uint64_t)of.list->start,
                 step = (uint64_t)of.list->step; // unsigned: may wrap
        list->start = (int64_t)(start + (uint64_t)slice.start * step);
        list->stop = (int64_t)(start + (uint64_t)slice.stop * step);
        list->step = (int64_t)(step * (uint64_t)slice.step);
    }
    *out = jinja_sequence(of.kind, list);
    return !run->has_failed;
}
