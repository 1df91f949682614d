// jinja_filters_list: filters on lists and dicts.
// In: the subject, arguments in the order of jinja_filters.def. Out: a value.
// Invariant: sorting is stable; filters that jinja2 makes lazily give a GENERATOR, which is read
// once.
// Example: [{"a": 2}, {"a": 1}] | sort(attribute="a") | map(attribute="a") | join(",") → "1,2".
#include <string.h>

#include "text/jinja_ast.h"
#include "text/jinja_builtins.h"

static bool give(JinjaRun *run, JinjaKind kind, JinjaList *list, JinjaValue *out) {
    *out = jinja_sequence(kind, list);
    return !run->has_failed;
}

// Text of the element that an empty sequence does not have.
static bool give_nothing(JinjaRun *run, const char *message, JinjaValue *out) {
    *out = jinja_undefined(run, (JinjaValue){0}, jinja_none(), false);
    out->missing->message = message;
    return true;
}

// What an item is sorted or compared by: its attribute, without letter case unless asked.
static bool item_key(JinjaRun *run, JinjaValue item, JinjaValue attribute, JinjaValue fallback,
                     bool is_exact, JinjaValue *out) {
    *out = item;
    if (attribute.kind != JINJA_ABSENT && attribute.kind != JINJA_NONE)
        TRY(jinja_get_path(run, item, attribute, fallback, out));
    return is_exact || jinja_ignore_case(run, *out, out);
}

// A list of keys: one for each attribute in "a,b". (In a list, attributes that two items both lack
// are equal.)
static bool sort_key(JinjaRun *run, JinjaValue item, JinjaValue attribute, bool is_exact,
                     JinjaValue *out) {
    JinjaString none = {.at = ""},
                *names = attribute.kind == JINJA_STRING ? attribute.string : &none;
    JinjaList *keys = jinja_list_new(run, 1);
    for (size_t at = 0, end; at <= names->len; at = end + 1) {
        end = jinja_find(names, ",", 1, at);
        if (end == SIZE_MAX) end = names->len;
        JinjaValue part = attribute.kind == JINJA_STRING ? jinja_slice(run, names, at, end - at)
                                                         : attribute,
                   key;
        TRY(item_key(run, item, part, (JinjaValue){0}, is_exact, &key));
        jinja_list_push(run, keys, key);
    }
    *out = jinja_sequence(JINJA_LIST, keys);
    return !run->has_failed;
}

// ---- sorting ----

// Merge sort of indices; equal keys keep their order, in reverse too.
static bool merge_sort(JinjaRun *run, const JinjaValue *keys, size_t *at, size_t *spare, size_t n,
                       bool is_reverse) {
    if (n < 2) return true;
    size_t half = n / 2, i = 0, j = half, k = 0;
    TRY(merge_sort(run, keys, at, spare, half, is_reverse));
    TRY(merge_sort(run, keys, at + half, spare, n - half, is_reverse));
    while (i < half && j < n) {
        int order;
        TRY(jinja_compare(run, keys[at[j]], keys[at[i]], "<", &order));
        bool takes_right = is_reverse ? order == 1 : order == -1;
        spare[k++] = takes_right ? at[j++] : at[i++];
    }
    while (i < half) spare[k++] = at[i++];
    while (j < n) spare[k++] = at[j++];
    memcpy(at, spare, n * sizeof *at);
    return true;
}

bool jinja_sort_values(JinjaRun *run, JinjaValue *at, const JinjaValue *keys, size_t n,
                       bool is_reverse) {
    if (n < 2) return true;
    TRY(jinja_charge(run, n * (2 * sizeof(size_t) + sizeof *at)));
    size_t *order = arena_new(run->arena, 2 * n * sizeof *order);
    for (size_t i = 0; i < n; i++) order[i] = i;
    TRY(merge_sort(run, keys, order, order + n, n, is_reverse));
    JinjaValue *sorted = arena_copy(run->arena, at, n * sizeof *at);
    for (size_t i = 0; i < n; i++) at[i] = sorted[order[i]];
    return true;
}

// A copy of the subject's items, sorted by keys; *keys may be NULL.
static bool sorted_items(JinjaRun *run, JinjaValue from, JinjaValue attribute, bool is_exact,
                         bool is_reverse, JinjaList **out) {
    JinjaList *items, *keys = jinja_list_new(run, 0);
    *out = jinja_list_new(run, 0);
    TRY(jinja_iterate(run, from, &items));
    for (size_t i = 0; i < items->len; i++) {
        JinjaValue key;
        TRY(sort_key(run, items->at[i], attribute, is_exact, &key));
        jinja_list_push(run, *out, items->at[i]);
        jinja_list_push(run, keys, key);
    }
    TRY(!run->has_failed);
    return jinja_sort_values(run, (*out)->at, keys->at, (*out)->len, is_reverse);
}

bool jinja_filter_sort(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaList *list;
    TRY(sorted_items(run, call->self, call->arg[2], jinja_arg_is_true(call, 1, false),
                     jinja_arg_is_true(call, 0, false), &list));
    return give(run, JINJA_LIST, list, out);
}

bool jinja_filter_dictsort(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *by;
    TRY(jinja_arg_string(run, call, 1, "key", &by));
    bool is_value = text_is((Text){by->at, by->len}, "value");
    if (call->self.kind == JINJA_UNDEFINED) return jinja_fail_undefined(run, call->self);
    if (call->self.kind != JINJA_DICT)
        return jinja_fail(run, "dictsort() wants a mapping, not %s", jinja_type_name(call->self));
    if (!is_value && !text_is((Text){by->at, by->len}, "key"))
        return jinja_fail(run, "You can only sort by either \"key\" or \"value\"");
    JinjaValue pairs = jinja_sequence(JINJA_LIST, jinja_dict_list(run, call->self.dict, "items"));
    JinjaList *list;
    TRY(sorted_items(run, pairs, jinja_int(is_value), jinja_arg_is_true(call, 0, false),
                     jinja_arg_is_true(call, 2, false), &list));
    return give(run, JINJA_LIST, list, out);
}

bool jinja_filter_groupby(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    bool is_exact = jinja_arg_is_true(call, 2, false);
    JinjaList *items, *sorted = jinja_list_new(run, 0), *keys = jinja_list_new(run, 0);
    JinjaList *groups = jinja_list_new(run, 0), *group = NULL;
    TRY(jinja_iterate(run, call->self, &items));
    for (size_t i = 0; i < items->len; i++) {
        JinjaValue key;
        TRY(item_key(run, items->at[i], call->arg[0], call->arg[1], is_exact, &key));
        jinja_list_push(run, keys, key);
        jinja_list_push(run, sorted, jinja_pair(run, key, items->at[i]));
    }
    TRY(!run->has_failed && jinja_sort_values(run, sorted->at, keys->at, sorted->len, false));
    for (size_t i = 0; i < sorted->len; i++) {
        const JinjaValue *pair = sorted->at[i].list->at;
        if (i == 0 || !jinja_equal(run, sorted->at[i - 1].list->at[0], pair[0])) {
            JinjaValue shown;
            TRY(item_key(run, pair[1], call->arg[0], call->arg[1], true, &shown));
            group = jinja_list_new(run, 0);
            JinjaValue entry = jinja_pair(run, shown, jinja_sequence(JINJA_LIST, group));
            TRY(!run->has_failed);
            entry.list->type_name = "group"; // answers to .grouper and .list
            jinja_list_push(run, groups, entry);
        }
        jinja_list_push(run, group, pair[1]);
    }
    return give(run, JINJA_LIST, groups, out);
}

bool jinja_filter_unique(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaList *items, *list = jinja_list_new(run, 0);
    JinjaDict *seen = jinja_dict_new(run);
    TRY(jinja_iterate(run, call->self, &items));
    for (size_t i = 0; i < items->len; i++) {
        JinjaValue key;
        TRY(item_key(run, items->at[i], call->arg[1], (JinjaValue){0},
                     jinja_arg_is_true(call, 0, false), &key));
        size_t before = seen->len;
        TRY(jinja_dict_set(run, seen, key, jinja_none()));
        if (seen->len > before) jinja_list_push(run, list, items->at[i]);
    }
    return give(run, JINJA_GENERATOR, list, out);
}

static bool extreme(JinjaRun *run, const JinjaCall *call, int wanted, JinjaValue *out) {
    JinjaList *items;
    JinjaValue best_key = {0};
    TRY(jinja_iterate(run, call->self, &items));
    if (items->len == 0) return give_nothing(run, "No aggregated item, sequence was empty.", out);
    for (size_t i = 0; i < items->len; i++) {
        JinjaValue key;
        int order = wanted;
        TRY(item_key(run, items->at[i], call->arg[1], (JinjaValue){0},
                     jinja_arg_is_true(call, 0, false), &key));
        if (i > 0) TRY(jinja_compare(run, key, best_key, wanted < 0 ? "<" : ">", &order));
        if (order != wanted) continue;
        best_key = key;
        *out = items->at[i];
    }
    return true;
}

bool jinja_filter_min(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return extreme(run, call, -1, out);
}
bool jinja_filter_max(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return extreme(run, call, 1, out);
}

// ---- choosing and changing items ----

// Arguments from index `from` on, for a filter or test that is named among them.
static JinjaArgs rest_of(const JinjaArgs *args, size_t from) {
    return (JinjaArgs){args->at + from, args->n - from, args->keywords, args->n_keywords};
}

static bool choose(JinjaRun *run, const JinjaCall *call, bool by_attribute, bool keeps,
                   JinjaValue *out) {
    JinjaList *items, *list = jinja_list_new(run, 0);
    size_t from = by_attribute;
    if (by_attribute && call->all->n == 0)
        return jinja_fail(run, "Missing parameter for attribute name");
    TRY(jinja_iterate(run, call->self, &items));
    for (size_t i = 0; i < items->len; i++) {
        JinjaValue subject = items->at[i], answer;
        if (by_attribute)
            TRY(jinja_get_path(run, subject, call->all->at[0], (JinjaValue){0}, &subject));
        answer = subject;
        if (call->all->n > from) {
            JinjaArgs args = rest_of(call->all, from + 1);
            TRY(jinja_apply(run, true, call->all->at[from], subject, &args, &answer));
        }
        if (jinja_is_true(answer) == keeps) jinja_list_push(run, list, items->at[i]);
    }
    return give(run, JINJA_GENERATOR, list, out);
}

bool jinja_filter_select(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return choose(run, call, false, true, out);
}

bool jinja_filter_reject(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return choose(run, call, false, false, out);
}

bool jinja_filter_selectattr(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return choose(run, call, true, true, out);
}

bool jinja_filter_rejectattr(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return choose(run, call, true, false, out);
}

static JinjaValue keyword_of(const JinjaArgs *args, const char *name) {
    for (size_t i = 0; i < args->n_keywords; i++)
        if (text_is((Text){args->keywords[i].name->at, args->keywords[i].name->len}, name))
            return args->keywords[i].value;
    return (JinjaValue){0};
}

bool jinja_filter_map(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    const JinjaArgs *args = call->all;
    JinjaValue attribute = keyword_of(args, "attribute"), fallback = keyword_of(args, "default");
    bool by_attribute = args->n == 0 && attribute.kind != JINJA_ABSENT;
    JinjaList *items, *list = jinja_list_new(run, 0);
    if (args->n == 0 && !by_attribute) return jinja_fail(run, "map requires a filter argument");
    TRY(jinja_iterate(run, call->self, &items));
    for (size_t i = 0; i < items->len; i++) {
        JinjaValue item = items->at[i];
        if (by_attribute) {
            TRY(item_key(run, item, attribute, fallback, true, &item));
        } else {
            JinjaArgs rest = rest_of(args, 1);
            TRY(jinja_apply(run, false, args->at[0], item, &rest, &item));
        }
        jinja_list_push(run, list, item);
    }
    return give(run, JINJA_GENERATOR, list, out);
}

bool jinja_filter_attr(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *name;
    TRY(jinja_to_string(run, call->arg[0], &name));
    if (call->self.kind != JINJA_DICT) return jinja_get_attribute(run, call->self, name, out);
    *out = jinja_undefined(run, call->self, jinja_string(name), false); // attributes only, no keys
    return true;
}

// ---- whole lists ----

bool jinja_filter_list(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaList *items, *list = jinja_list_new(run, 0);
    TRY(jinja_iterate(run, call->self, &items));
    TRY(jinja_step(run, items->len));
    for (size_t i = 0; i < items->len; i++) jinja_list_push(run, list, items->at[i]);
    return give(run, JINJA_LIST, list, out);
}

bool jinja_filter_items(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    if (call->self.kind == JINJA_UNDEFINED)
        return give(run, JINJA_GENERATOR, jinja_list_new(run, 0), out);
    if (call->self.kind != JINJA_DICT)
        return jinja_fail(run, "Can only get item pairs from a mapping.");
    TRY(jinja_step(run, call->self.dict->len));
    return give(run, JINJA_GENERATOR, jinja_dict_list(run, call->self.dict, "items"), out);
}

bool jinja_filter_length(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    int64_t length;
    TRY(jinja_length(run, call->self, &length));
    *out = jinja_int(length);
    return true;
}

bool jinja_filter_first(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaList *items;
    TRY(jinja_iterate(run, call->self, &items));
    if (items->len == 0) return give_nothing(run, "No first item, sequence was empty.", out);
    *out = items->at[0];
    return true;
}

bool jinja_filter_last(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaList *items;
    TRY(jinja_iterate(run, call->self, &items));
    if (items->len == 0) return give_nothing(run, "No last item, sequence was empty.", out);
    *out = items->at[items->len - 1];
    return true;
}

bool jinja_filter_join(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaString *separator;
    JinjaList *items;
    JinjaValue d = call->arg[0].kind == JINJA_ABSENT ? jinja_cstring(run, "") : call->arg[0];
    TRY(jinja_to_string(run, d, &separator));
    TRY(jinja_iterate(run, call->self, &items));
    JinjaBuilder b = jinja_builder(run);
    for (size_t i = 0; i < items->len && !run->has_failed; i++) {
        JinjaValue item;
        TRY(item_key(run, items->at[i], call->arg[1], (JinjaValue){0}, true, &item));
        if (i > 0) jinja_append_string(&b, separator);
        jinja_append_value(&b, item);
    }
    return jinja_finish(&b, out);
}

bool jinja_filter_sum(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaList *items;
    TRY(jinja_iterate(run, call->self, &items));
    *out = call->arg[1].kind == JINJA_ABSENT ? jinja_int(0) : call->arg[1];
    for (size_t i = 0; i < items->len; i++) {
        JinjaValue item;
        TRY(item_key(run, items->at[i], call->arg[0], (JinjaValue){0}, true, &item));
        TRY(jinja_binary(run, JINJA_TOKEN_ADD, *out, item, out));
    }
    return true;
}

bool jinja_filter_reverse(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaValue back[3] = {{0}, {0}, jinja_int(-1)};
    if (call->self.kind == JINJA_STRING) return jinja_get_slice(run, call->self, back, out);
    JinjaList *items;
    TRY(jinja_iterate(run, call->self, &items));
    TRY(jinja_get_slice(run, jinja_sequence(JINJA_LIST, items), back, out));
    if (call->self.kind != JINJA_GENERATOR)
        out->kind = JINJA_GENERATOR; // what can not run backwards is copied
    return true;
}

bool jinja_filter_batch(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    int64_t count;
    JinjaList *items, *batches = jinja_list_new(run, 0), *batch = NULL;
    TRY(jinja_arg_int(run, call, 0, 0, &count));
    TRY(jinja_iterate(run, call->self, &items));
    for (size_t i = 0; i < items->len; i++) {
        if (!batch || (count > 0 && batch->len == (size_t)count)) {
            batch = jinja_list_new(run, 0);
            jinja_list_push(run, batches, jinja_sequence(JINJA_LIST, batch));
        }
        jinja_list_push(run, batch, items->at[i]);
    }
    bool has_fill = call->arg[1].kind != JINJA_ABSENT && call->arg[1].kind != JINJA_NONE;
    while (batch && has_fill && (int64_t)batch->len < count && jinja_step(run, 1))
        jinja_list_push(run, batch, call->arg[1]);
    return give(run, JINJA_GENERATOR, batches, out);
}

bool jinja_filter_slice(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    int64_t slices;
    JinjaList *items, *list = jinja_list_new(run, 0);
    TRY(jinja_arg_int(run, call, 0, 0, &slices));
    TRY(jinja_iterate(run, call->self, &items));
    if (slices == 0) return jinja_fail(run, "integer division or modulo by zero");
    bool has_fill = call->arg[1].kind != JINJA_ABSENT && call->arg[1].kind != JINJA_NONE;
    size_t n = slices > 0 ? (size_t)slices : 0, each = n ? items->len / n : 0,
           extra = n ? items->len % n : 0, at = 0;
    for (size_t i = 0; i < n; i++) {
        TRY(jinja_step(run, 1));
        JinjaList *slice = jinja_list_new(run, 0);
        for (size_t k = 0; k < each + (i < extra); k++)
            jinja_list_push(run, slice, items->at[at++]);
        if (has_fill && i >= extra) jinja_list_push(run, slice, call->arg[1]);
        jinja_list_push(run, list, jinja_sequence(JINJA_LIST, slice));
    }
    return give(run, JINJA_GENERATOR, list, out);
}
