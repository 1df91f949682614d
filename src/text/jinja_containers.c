// jinja_containers: methods of dicts and lists, as Python has them.
// In: the container (call->self) and arguments in the order of jinja_methods.def. Out: a value.
// Invariant: keys keep the order they came in; a list that grows while a loop runs over it does not
// grow that loop.
// Example: {"a": 1}.get("b", 2) is 2; {% set _ = xs.append(3) %} adds to xs.
#include <string.h>

#include "text/jinja_builtins.h"

static bool give_view(JinjaRun *run, const JinjaDict *dict, const char *which,
                      const char *type_name, JinjaValue *out) {
    TRY(jinja_step(run, dict->len));
    JinjaList *list = jinja_dict_list(run, dict, which);
    list->type_name = type_name;
    *out = jinja_sequence(JINJA_VIEW, list);
    return !run->has_failed;
}

bool jinja_dict_items(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return give_view(run, call->self.dict, "items", "dict_items", out);
}

bool jinja_dict_keys(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return give_view(run, call->self.dict, "keys", "dict_keys", out);
}

bool jinja_dict_values(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    return give_view(run, call->self.dict, "values", "dict_values", out);
}

bool jinja_dict_get(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    const JinjaEntry *entry = jinja_dict_find(run, call->self.dict, call->arg[0]);
    *out = entry ? entry->value : call->arg[1].kind == JINJA_ABSENT ? jinja_none() : call->arg[1];
    return !run->has_failed;
}

bool jinja_dict_setdefault(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    TRY(jinja_dict_get(run, call, out));
    if (jinja_dict_find(run, call->self.dict, call->arg[0])) return true;
    return jinja_dict_set(run, call->self.dict, call->arg[0], *out);
}

bool jinja_dict_pop(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaEntry *entry = jinja_dict_find(run, call->self.dict, call->arg[0]);
    if (!entry && call->arg[1].kind == JINJA_ABSENT)
        return jinja_fail(run, "pop(): the key is not in the dict");
    *out = entry ? entry->value : call->arg[1];
    if (entry) jinja_dict_remove(call->self.dict, entry);
    return jinja_step(run, call->self.dict->len);
}

bool jinja_dict_copy(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    const JinjaDict *from = call->self.dict;
    *out = jinja_dict_value(jinja_dict_new(run));
    TRY(jinja_step(run, from->len));
    for (size_t i = 0; i < from->len; i++)
        TRY(jinja_dict_set(run, out->dict, from->at[i].key, from->at[i].value));
    return true;
}

bool jinja_dict_clear(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    (void)run;
    *call->self.dict = (JinjaDict){0};
    *out = jinja_none();
    return true;
}

// ---- lists ----

// The list's items are copied before the first change, so that a running loop keeps those it began
// with.
static void own_items(JinjaRun *run, JinjaList *list) {
    JinjaList *copy = jinja_list_new(run, list->len + 1);
    if (run->has_failed) return;
    if (list->len > 0) memcpy(copy->at, list->at, list->len * sizeof *list->at);
    list->at = copy->at;
    list->cap = copy->cap;
}

bool jinja_list_append(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    jinja_list_push(run, call->self.list, call->arg[0]);
    *out = jinja_none();
    return !run->has_failed;
}

bool jinja_list_extend(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaList *items;
    TRY(jinja_iterate(run, call->arg[0], &items));
    TRY(jinja_step(run, items->len));
    for (size_t i = 0, n = items->len; i < n; i++)
        jinja_list_push(run, call->self.list, items->at[i]);
    *out = jinja_none();
    return !run->has_failed;
}

bool jinja_list_insert(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaList *list = call->self.list;
    int64_t index, len = (int64_t)list->len;
    TRY(jinja_arg_int(run, call, 0, 0, &index));
    index = index < -len ? 0 : index < 0 ? index + len : index > len ? len : index;
    TRY(jinja_step(run, list->len));
    own_items(run, list);
    jinja_list_push(run, list, call->arg[1]);
    TRY(!run->has_failed);
    memmove(list->at + index + 1, list->at + index, (size_t)(len - index) * sizeof *list->at);
    list->at[index] = call->arg[1];
    *out = jinja_none();
    return true;
}

static bool remove_at(JinjaRun *run, JinjaList *list, size_t index) {
    TRY(jinja_step(run, list->len));
    own_items(run, list);
    TRY(!run->has_failed);
    memmove(list->at + index, list->at + index + 1, (list->len - index - 1) * sizeof *list->at);
    list->len--;
    return true;
}

bool jinja_list_pop(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaList *list = call->self.list;
    int64_t index, len = (int64_t)list->len;
    TRY(jinja_arg_int(run, call, 0, -1, &index));
    if (index < 0) index += len;
    if (index < 0 || index >= len)
        return jinja_fail(run, len == 0 ? "pop from empty list" : "pop index out of range");
    *out = list->at[index];
    return remove_at(run, list, (size_t)index);
}

static bool find_item(JinjaRun *run, const JinjaCall *call, size_t *out) {
    *out = 0;
    const JinjaList *list = call->self.list;
    for (size_t i = 0; i < list->len && !run->has_failed; i++)
        if (jinja_equal(run, list->at[i], call->arg[0])) {
            *out = i;
            return true;
        }
    return jinja_fail(run, "%s(): the value is not in the list", call->name);
}

bool jinja_list_index(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    size_t index;
    TRY(find_item(run, call, &index));
    *out = jinja_int((int64_t)index);
    return true;
}

bool jinja_list_remove(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    size_t index;
    TRY(find_item(run, call, &index));
    *out = jinja_none();
    return remove_at(run, call->self.list, index);
}

bool jinja_list_count(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    int64_t n = 0;
    for (size_t i = 0; i < call->self.list->len; i++)
        n += jinja_equal(run, call->self.list->at[i], call->arg[0]);
    *out = jinja_int(n);
    return !run->has_failed;
}

bool jinja_list_clear(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    (void)run;
    *call->self.list = (JinjaList){0};
    *out = jinja_none();
    return true;
}

bool jinja_list_reverse(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaList *list = call->self.list;
    TRY(jinja_step(run, list->len));
    own_items(run, list);
    TRY(!run->has_failed);
    for (size_t i = 0; i < list->len / 2; i++) {
        JinjaValue other = list->at[list->len - 1 - i];
        list->at[list->len - 1 - i] = list->at[i];
        list->at[i] = other;
    }
    *out = jinja_none();
    return true;
}

bool jinja_list_sort(JinjaRun *run, const JinjaCall *call, JinjaValue *out) {
    JinjaList *list = call->self.list;
    own_items(run, list);
    TRY(!run->has_failed);
    JinjaValue *keys = arena_copy(run->arena, list->at, (list->len + 1) * sizeof *keys);
    *out = jinja_none();
    return jinja_sort_values(run, list->at, keys, list->len, jinja_arg_is_true(call, 0, false));
}
