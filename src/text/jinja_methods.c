// jinja_methods: methods of strings, as Python's str has them.
// In: the string (call->self) and arguments in the order of jinja_methods.def. Out: a value.
// Invariant: positions that a template sees count characters, not bytes; slices share bytes and
// keep their origin.
// Example: "a</think>b".split("</think>")[-1] is "b".
#include <string.h>
#include <utf8proc.h>

#include "text/jinja_builtins.h"

// ---- searching ----

// The part of s between the optional arguments start and end, and the byte where it begins.
static bool search_range(JinjaRun *run, const JinjaCall *call, JinjaString *out, size_t *offset) {
    JinjaValue whole, part[3] = {call->arg[1], call->arg[2], {0}};
    *out = *call->self.string;
    *offset = 0;
    TRY(jinja_step(run, 1 + out->len / 64));
    if (part[0].kind == JINJA_ABSENT && part[1].kind == JINJA_ABSENT) return true;
    TRY(jinja_get_slice(run, call->self, part, &whole));
    *offset = (size_t)(whole.string->at - out->at);
    *out = *whole.string;
    return true;
}

static size_t find_last(const JinjaString *s, const char *part, size_t len) {
    for (size_t at = s->len >= len ? s->len - len + 1 : 0; at-- > 0;)
        if (memcmp(s->at + at, part, len) == 0) return at;
    return SIZE_MAX;
}

static bool search(JinjaRun *run, const JinjaCall *call, bool from_end, bool must_find,
                   JinjaValue *out) {
    JinjaString range, *sub;
    size_t offset;
    TRY(jinja_arg_string(run, call, 0, NULL, &sub));
    TRY(search_range(run, call, &range, &offset));
    size_t at =
        from_end ? find_last(&range, sub->at, sub->len) : jinja_find(&range, sub->at, sub->len, 0);
    if (at == SIZE_MAX && must_find) return jinja_fail(run, "substring not found");
    JinjaString before = *call->self.string;
    before.len = offset + at;
    *out = jinja_int(at == SIZE_MAX ? -1 : (int64_t)jinja_char_count(&before));
    return true;
}

bool jinja_string_find(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return search(run, call, false, false, out);
}
bool jinja_string_rfind(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return search(run, call, true, false, out);
}
bool jinja_string_index(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return search(run, call, false, true, out);
}
bool jinja_string_rindex(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return search(run, call, true, true, out);
}

bool jinja_string_count(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString range, *sub;
    size_t offset;
    int64_t n = 0;
    TRY(jinja_arg_string(run, call, 0, NULL, &sub));
    TRY(search_range(run, call, &range, &offset));
    if (sub->len == 0) n = (int64_t)jinja_char_count(&range) + 1;
    for (size_t at = 0;
         sub->len > 0 && (at = jinja_find(&range, sub->at, sub->len, at)) != SIZE_MAX;
         at += sub->len)
        n++;
    *out = jinja_int(n);
    return true;
}

static bool is_at_edge(const JinjaString *s, const JinjaString *part, bool at_end) {
    return part->len <= s->len &&
           memcmp(at_end ? s->at + s->len - part->len : s->at, part->at, part->len) == 0;
}

// The argument may be a tuple: any of them.
static bool edge(JinjaRun *run, const JinjaCall *call, bool at_end, JinjaValue *out) {
    JinjaString range, *part;
    size_t offset;
    TRY(search_range(run, call, &range, &offset));
    *out = jinja_bool(false);
    if (call->arg[0].kind != JINJA_TUPLE) {
        TRY(jinja_arg_string(run, call, 0, NULL, &part));
        *out = jinja_bool(is_at_edge(&range, part, at_end));
        return true;
    }
    const JinjaList *parts = call->arg[0].list;
    for (size_t i = 0; i < parts->len && !out->boolean; i++) {
        if (parts->at[i].kind != JINJA_STRING)
            return jinja_fail(run, "%s(): a tuple of strings is wanted", call->name);
        *out = jinja_bool(is_at_edge(&range, parts->at[i].string, at_end));
    }
    return true;
}

bool jinja_string_startswith(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return edge(run, call, false, out);
}
bool jinja_string_endswith(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return edge(run, call, true, out);
}

// ---- cutting ----

static bool strip(JinjaRun *run, const JinjaCall *call, bool left, bool right, JinjaValue *out) {
    JinjaString *chars = NULL;
    if (call->arg[0].kind != JINJA_NONE) TRY(jinja_arg_string(run, call, 0, NULL, &chars));
    *out = jinja_strip(run, call->self.string, chars, left, right);
    return true;
}

bool jinja_string_strip(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return strip(run, call, true, true, out);
}
bool jinja_string_lstrip(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return strip(run, call, true, false, out);
}
bool jinja_string_rstrip(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return strip(run, call, false, true, out);
}

bool jinja_string_removeprefix(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *s = call->self.string, *part;
    TRY(jinja_arg_string(run, call, 0, NULL, &part));
    size_t cut = is_at_edge(s, part, false) ? part->len : 0;
    *out = jinja_slice(run, s, cut, s->len - cut);
    return true;
}

bool jinja_string_removesuffix(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *s = call->self.string, *part;
    TRY(jinja_arg_string(run, call, 0, NULL, &part));
    *out = jinja_slice(run, s, 0, s->len - (is_at_edge(s, part, true) ? part->len : 0));
    return true;
}

static void push_part(JinjaRun *run, JinjaList *list, const JinjaString *s, size_t from,
                      size_t to) {
    jinja_list_push(run, list, jinja_slice(run, s, from, to - from));
}

// Without a separator: between runs of white space, and no empty parts.
static void split_blanks(JinjaRun *run, const JinjaString *s, int64_t max, JinjaList *list) {
    size_t at = 0, used;
    for (;;) {
        while (at < s->len && jinja_is_space(jinja_char_at(s, at, &used))) at += used;
        if (at == s->len || !jinja_step(run, 1)) return;
        size_t start = at;
        if (max >= 0 && (int64_t)list->len >= max) {
            push_part(run, list, s, start, s->len);
            return;
        }
        while (at < s->len && !jinja_is_space(jinja_char_at(s, at, &used))) at += used;
        push_part(run, list, s, start, at);
    }
}

static void reverse_items(JinjaList *list) {
    for (size_t i = 0; i < list->len / 2; i++) {
        JinjaValue other = list->at[list->len - 1 - i];
        list->at[list->len - 1 - i] = list->at[i];
        list->at[i] = other;
    }
}

// As split_blanks, with at most `max` cuts, counted from the end.
static void rsplit_blanks(JinjaRun *run, const JinjaString *s, int64_t max, JinjaList *list) {
    JinjaList *all = jinja_list_new(run, 0);
    split_blanks(run, s, -1, all);
    if (max < 0 || (int64_t)all->len <= max + 1) {
        *list = *all;
        return;
    }
    size_t first = all->len - (size_t)max - 1; // the words up to this one stay together
    const JinjaString *head = all->at[first].string;
    push_part(run, list, s, 0, (size_t)(head->at - s->at) + head->len);
    for (size_t i = first + 1; i < all->len; i++) jinja_list_push(run, list, all->at[i]);
}

static void split_by(JinjaRun *run, const JinjaString *s, const JinjaString *by, int64_t max,
                     JinjaList *list) {
    size_t at = 0;
    for (size_t hit; max < 0 || (int64_t)list->len < max; at = hit + by->len) {
        hit = jinja_find(s, by->at, by->len, at);
        if (hit == SIZE_MAX || !jinja_step(run, 1)) break;
        push_part(run, list, s, at, hit);
    }
    push_part(run, list, s, at, s->len);
}

static void rsplit_by(JinjaRun *run, const JinjaString *s, const JinjaString *by, int64_t max,
                      JinjaList *list) {
    JinjaString rest = *s;
    while (max < 0 || (int64_t)list->len < max) {
        size_t hit = find_last(&rest, by->at, by->len);
        if (hit == SIZE_MAX || !jinja_step(run, 1)) break;
        push_part(run, list, s, hit + by->len, rest.len);
        rest.len = hit;
    }
    push_part(run, list, s, 0, rest.len);
    reverse_items(list);
}

static bool split(JinjaRun *run, const JinjaCall *call, bool from_end, JinjaValue *out) {
    const JinjaString *s = call->self.string;
    JinjaString *by = NULL;
    int64_t max;
    if (call->arg[0].kind != JINJA_NONE) TRY(jinja_arg_string(run, call, 0, NULL, &by));
    TRY(jinja_arg_int(run, call, 1, -1, &max));
    if (by && by->len == 0) return jinja_fail(run, "empty separator");
    TRY(jinja_step(run, 1 + s->len / 64));
    JinjaList *list = jinja_list_new(run, 0);
    if (by) (from_end ? rsplit_by : split_by)(run, s, by, max, list);
    else (from_end ? rsplit_blanks : split_blanks)(run, s, max, list);
    *out = jinja_sequence(JINJA_LIST, list);
    return !run->has_failed;
}

bool jinja_string_split(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return split(run, call, false, out);
}
bool jinja_string_rsplit(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return split(run, call, true, out);
}

static bool partition(JinjaRun *run, const JinjaCall *call, bool from_end, JinjaValue *out) {
    const JinjaString *s = call->self.string;
    JinjaString *by;
    TRY(jinja_arg_string(run, call, 0, NULL, &by));
    if (by->len == 0) return jinja_fail(run, "empty separator");
    size_t hit = from_end ? find_last(s, by->at, by->len) : jinja_find(s, by->at, by->len, 0);
    size_t miss = from_end ? 0 : s->len; // where nothing is found, all is on one side
    size_t start = hit == SIZE_MAX ? miss : hit, end = hit == SIZE_MAX ? miss : hit + by->len;
    JinjaList *list = jinja_list_new(run, 3);
    push_part(run, list, s, 0, start);
    push_part(run, list, s, start, end);
    push_part(run, list, s, end, s->len);
    *out = jinja_sequence(JINJA_TUPLE, list);
    return !run->has_failed;
}

bool jinja_string_partition(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return partition(run, call, false, out);
}
bool jinja_string_rpartition(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return partition(run, call, true, out);
}

// ---- joining and padding ----

bool jinja_string_join(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaList *items;
    TRY(jinja_iterate(run, call->arg[0], &items));
    JinjaBuilder b = jinja_builder(run);
    for (size_t i = 0; i < items->len && !run->has_failed; i++) {
        JinjaValue item = jinja_soften(run, items->at[i]);
        if (item.kind != JINJA_STRING)
            return jinja_fail(run, "sequence item %zu: expected str instance, %s found", i,
                              jinja_type_name(item));
        if (i > 0) jinja_append_string(&b, call->self.string);
        jinja_append_string(&b, item.string);
    }
    return jinja_finish(&b, out);
}

bool jinja_string_replace(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *text;
    TRY(jinja_arg_string(run, call, 0, NULL, &text) && jinja_arg_string(run, call, 1, NULL, &text));
    return jinja_filter_replace(run, call, out);
}

static bool pad(JinjaRun *run, const JinjaCall *call, int side, JinjaValue *out) {
    const JinjaString *s = call->self.string;
    JinjaString *fill;
    int64_t width;
    TRY(jinja_arg_int(run, call, 0, 0, &width));
    TRY(jinja_arg_string(run, call, 1, " ", &fill));
    if (jinja_char_count(fill) != 1)
        return jinja_fail(run, "The fill character must be exactly one character long");
    int64_t extra = width - (int64_t)jinja_char_count(s);
    if (extra < 0) extra = 0;
    TRY(jinja_step(run, (size_t)extra));
    int64_t left = side < 0 ? extra : side > 0 ? 0 : extra / 2 + (extra & width & 1);
    JinjaBuilder b = jinja_builder(run);
    for (int64_t i = 0; i < left && !run->has_failed; i++) jinja_append_string(&b, fill);
    jinja_append_string(&b, s);
    for (int64_t i = left; i < extra && !run->has_failed; i++) jinja_append_string(&b, fill);
    return jinja_finish(&b, out);
}

bool jinja_string_center(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return pad(run, call, 0, out);
}
bool jinja_string_ljust(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return pad(run, call, 1, out);
}
bool jinja_string_rjust(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return pad(run, call, -1, out);
}

bool jinja_string_zfill(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    const JinjaString *s = call->self.string;
    int64_t width;
    TRY(jinja_arg_int(run, call, 0, 0, &width));
    int64_t extra = width - (int64_t)jinja_char_count(s);
    size_t sign = s->len > 0 && (s->at[0] == '-' || s->at[0] == '+');
    TRY(jinja_step(run, extra > 0 ? (size_t)extra : 0));
    JinjaBuilder b = jinja_builder(run);
    jinja_append_part(&b, s, 0, sign);
    for (int64_t i = 0; i < extra && !run->has_failed; i++) jinja_append_cstring(&b, "0");
    jinja_append_part(&b, s, sign, s->len - sign);
    return jinja_finish(&b, out);
}

bool jinja_string_format(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return jinja_brace_format(run, call->self.string, call->all, out);
}

// ---- letter case ----

static bool is_cased_letter(int32_t c) {
    if (c < 0) return false;
    utf8proc_category_t category = utf8proc_category(c);
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
           category == UTF8PROC_CATEGORY_LT;
}

// Unlike the filter: a word begins at every letter behind a character that is no letter.
bool jinja_string_title(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    const JinjaString *s = call->self.string;
    bool is_inside = false;
    TRY(jinja_step(run, 1 + s->len / 8));
    JinjaBuilder b = jinja_builder(run);
    for (size_t at = 0, used; at < s->len && !run->has_failed; at += used) {
        int32_t c = jinja_char_at(s, at, &used);
        jinja_append_case(&b, s, at, is_inside ? JINJA_LOWER : JINJA_TITLE);
        is_inside = is_cased_letter(c);
    }
    return jinja_finish(&b, out);
}

bool jinja_string_swapcase(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    const JinjaString *s = call->self.string;
    TRY(jinja_step(run, 1 + s->len / 8));
    JinjaBuilder b = jinja_builder(run);
    for (size_t at = 0, used; at < s->len && !run->has_failed; at += used) {
        int32_t c = jinja_char_at(s, at, &used);
        bool is_upper = c >= 0 && utf8proc_category(c) == UTF8PROC_CATEGORY_LU;
        jinja_append_case(&b, s, at, is_upper ? JINJA_LOWER : JINJA_UPPER);
    }
    return jinja_finish(&b, out);
}

// ---- what all characters are ----

static bool is_letter(int32_t c) {
    return c >= 0 && utf8proc_category(c) >= UTF8PROC_CATEGORY_LU &&
           utf8proc_category(c) <= UTF8PROC_CATEGORY_LO;
}

static bool is_decimal(int32_t c) { return c >= 0 && utf8proc_category(c) == UTF8PROC_CATEGORY_ND; }

static bool is_numeric(int32_t c) {
    return c >= 0 && utf8proc_category(c) >= UTF8PROC_CATEGORY_ND &&
           utf8proc_category(c) <= UTF8PROC_CATEGORY_NO;
}

static bool is_alphanumeric(int32_t c) { return is_letter(c) || is_numeric(c); }

static bool all_are(JinjaRun *run, const JinjaString *s, bool (*is)(int32_t c), JinjaValue *out) {
    bool holds = s->len > 0;
    TRY(jinja_step(run, 1 + s->len / 8));
    for (size_t at = 0, used; holds && at < s->len; at += used)
        holds = is(jinja_char_at(s, at, &used));
    *out = jinja_bool(holds);
    return true;
}

bool jinja_string_isalnum(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return all_are(run, call->self.string, is_alphanumeric, out);
}

bool jinja_string_isalpha(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return all_are(run, call->self.string, is_letter, out);
}

bool jinja_string_isdecimal(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return all_are(run, call->self.string, is_decimal, out);
}

bool jinja_string_isnumeric(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return all_are(run, call->self.string, is_numeric, out);
}

bool jinja_string_isspace(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return all_are(run, call->self.string, jinja_is_space, out);
}

bool jinja_string_isascii(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    bool is_ascii = true;
    (void)run;
    for (size_t i = 0; i < call->self.string->len; i++)
        is_ascii = is_ascii && (unsigned char)call->self.string->at[i] < 0x80;
    *out = jinja_bool(is_ascii);
    return true;
}
